"""A program beside weights or in a run's folder, which nobody has named, never runs."""

import re
from pathlib import Path

import pytest
from helpers.config.linear_config import CONFIG
from helpers.features.probe_folders import write_coco

import mmssprl
from mmssprl import cli
from mmssprl.errors import UserError
from mmssprl.pretraining.start import default_work_dir, pretrained_images
from mmssprl.reporting import write_report
from mmssprl.visualization import draw_losses, draw_prototypes
from tools.dev.faults import planted

pytestmark = pytest.mark.fault
TRAP = planted.PROGRAMS["a statement"]
USED = (
    "pretrain photos --work-dir run",
    "finetune w/w.pth labelled --task classify --work-dir run",
)
"""Refused for the files in the folder, some of which are configs."""
TRAIN = "train linear.py --weights w/w.pth --work-dir new"


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """Weights, a pre-training and a fine-tuning in the current folder, a program in each."""
    monkeypatch.chdir(tmp_path)
    planted.write_trap(tmp_path, TRAP)


@pytest.mark.parametrize("command", [*planted.COMMANDS, TRAIN, *USED])
def test_no_command_runs_it(trap, command, capsys):
    if command == TRAIN:
        write_coco(Path.cwd())
        Path("linear.py").write_text(CONFIG.replace("depth=18", "depth=34"))
    assert cli.main(command.split()) == 2
    assert not Path("sprung").exists()
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if line.startswith("mmssprl ")]
    assert ("must be new or empty" if command in USED else "it is read as data") in line


@pytest.mark.slow
def test_no_program_runs():
    lines = []
    found = planted.planted(lines.append)
    assert found.survived == found.tries > 100, lines


@pytest.mark.parametrize(
    "call",
    [
        lambda: mmssprl.load_backbone("w/w.pth"),
        lambda: mmssprl.embed("w/w.pth", "photos", progress=False),
        lambda: draw_losses("run"),
        lambda: draw_prototypes("run"),
        lambda: write_report("run"),
        lambda: mmssprl.pretrain("photos", "run", resume=True),
    ],
    ids=["load_backbone", "embed", "draw_losses", "draw_prototypes", "write_report", "pretrain"],
)
def test_no_function_runs_it(trap, call):
    with pytest.raises(UserError, match="line 1"):
        call()
    assert not Path("sprung").exists()


def test_the_default_work_dir_is_found_without_running_others(trap):
    for name in ("pretrain_photos", "pretrain_photos-2"):
        Path("work_dirs", name).mkdir(parents=True)
        Path("work_dirs", name, "ssprl_a.py").write_text(TRAP)
    found = default_work_dir("pretrain", "photos", pretrained_images)
    assert found == Path("work_dirs/pretrain_photos-3")
    assert not Path("sprung").exists()


def test_a_config_that_is_named_runs(trap, capsys):
    assert cli.main(["export", "w/w.pth", "--to", "safetensors", "--config", "w/a.py"]) == 0
    assert Path("sprung").exists(), "the trap works"
    assert "backbone read from" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("report run", "run/ssprl_a.py: train_cfg.max_epochs: "),
        ("visualize losses run out.png", "run/ssprl_a.py: model: .*'neck' and 'head'"),
        ("visualize prototypes run out.png", "run/ssprl_a.py: model: .*'neck' and 'head'"),
        ("pretrain photos --work-dir run --resume", "run/ssprl_a.py: train_cfg.max_epochs: "),
        ("predict tuned photos --out out", "tuned/classify.py: default_scope: "),
        (
            "finetune w/w.pth labelled --task classify --work-dir tuned --resume",
            "tuned/classify.py: weights: ",
        ),
        (TRAIN, "linear.py: .*'depth'"),
    ],
)
def test_plain_values_of_a_wrong_shape_are_told_in_one_line(trap, command, told, capsys):
    planted_configs = [Path(name) for name in ("w/a.py", "run/ssprl_a.py", "tuned/classify.py")]
    for path in planted_configs:
        path.write_text(path.read_text().removeprefix(TRAP))
    if command == TRAIN:
        write_coco(Path.cwd())
        Path("linear.py").write_text(CONFIG.replace("depth=18", "depth=34"))
        Path("w/a.py").write_text(re.sub(r"depth=18,\s", "", Path("w/a.py").read_text()))
    assert cli.main(command.split()) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if line.startswith("mmssprl ")]
    assert re.search(told, line)
