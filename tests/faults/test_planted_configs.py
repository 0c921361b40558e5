"""A program beside weights or in a run's folder, which nobody has named, never runs."""

import json
from pathlib import Path

import pytest
import torch
from image_folders import folder
from labelled_folders import write_class_folders
from linear_config import CONFIG
from mmengine.config import Config
from probe_folders import write_coco
from tiny_benchmark import NARROW, save_backbone

import mmssprl
from mmssprl import cli
from mmssprl.errors import UserError
from mmssprl.pretraining.work_dir import default_work_dir, pretrained_images
from mmssprl.report import write_report
from mmssprl.visualization import draw_losses, draw_prototypes

pytestmark = pytest.mark.fault
TRAP = "open('sprung', 'w').close()\n"


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """Weights, a pre-training and a fine-tuning in the current folder, a program in each."""
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "photos", 3)
    write_class_folders(tmp_path / "labelled")
    for name, kind in (("w/w.pth", "w/a.py"), ("run/epoch_1.pth", "run/ssprl_a.py")):
        save_backbone(Path(name), NARROW, with_config=False)
        state = torch.load(name, weights_only=True)
        if name.startswith("run"):
            state = {"meta": {"epoch": 1, "iter": 1}, "state_dict": state}
        torch.save(state, name)
        content = {
            "model": {"type": "SSPRL", "layout": {"image_px": 32}, "backbone": NARROW},
            "train_dataloader": {"dataset": {"data_root": str(tmp_path / "photos")}},
        }
        Config(content).dump(kind)
        Path(kind).write_text(TRAP + Path(kind).read_text())
    Path("tuned").mkdir()
    Path("tuned/classify.py").write_text(TRAP + "finetuning = dict(data_root='labelled')\n")
    log = Path("run/20260101_000000/vis_data/scalars.json")
    log.parent.mkdir(parents=True)
    line = {"lr": 0.1, "loss": 1.0, "epoch": 1, "iter": 1, "step": 1}
    line |= {"progress": 0.5, "epochs_done": 0.5}
    log.write_text(json.dumps(line) + "\n")
    return tmp_path


COMMANDS = [
    "embed w/w.pth photos out.npz",
    "neighbors w/w.pth photos/00.png photos",
    "probe w/w.pth coco",
    "export w/w.pth --to safetensors",
    "benchmark w/w.pth --size scenes --dry-run",
    "train linear.py --weights w/w.pth --work-dir new",
    "finetune w/w.pth labelled --task classify --work-dir new",
    "finetune w/w.pth labelled --task classify --work-dir tuned --resume",
    "finetune w/w.pth labelled --task classify --work-dir tuned",
    "predict tuned/epoch_1.pth photos --out out",
    "pretrain photos --work-dir run --resume",
    "pretrain photos --work-dir run",
    "visualize losses run out.png",
    "visualize prototypes run out.png",
    "report run",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_it(trap, command, capsys):
    if command.startswith("predict"):
        Path("tuned/epoch_1.pth").write_bytes(Path("w/w.pth").read_bytes())
    if command.startswith(("probe", "train")):
        write_coco(trap)
        Path("linear.py").write_text(CONFIG.replace("depth=18", "depth=34"))
    assert cli.main(command.split()) == 2
    assert not Path("sprung").exists()
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if line.startswith("mmssprl ")]
    assert len(lines) == 1
    # Whose folder is used already is told by the files that can be read.
    is_used = "must be new or empty" in lines[0]
    assert is_used != ("it is read as data" in lines[0]), lines[0]
    assert is_used == command.endswith(("--work-dir tuned", "--work-dir run"))


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
    with pytest.raises(UserError, match="line 1: .* it is read as data"):
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


def test_plain_values_are_read_and_told(trap, capsys):
    text = Path("w/a.py").read_text().removeprefix(TRAP)
    Path("w/a.py").write_text(text)
    assert cli.main(["export", "w/w.pth", "--to", "safetensors"]) == 0
    assert "w/w.pth: backbone read from w/a.py." in capsys.readouterr().out
