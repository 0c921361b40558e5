"""No file that a user gives, and none beside it, runs code that nobody has named.

tests/saving/test_checkpoint_safety.py has the trainings.
"""

import ast
import os
import pickle
import re
from pathlib import Path

import mmengine
import numpy as np
import pytest
import yaml
from helpers.config.linear_config import CONFIG
from helpers.features.probe_folders import write_coco
from helpers.weights.traps import Call
from PIL import EpsImagePlugin, Image

import mmssprl
from mmssprl import cli
from mmssprl.datasets.image_reading import ImageReadError, read_image
from mmssprl.errors import UserError
from mmssprl.pretraining.start import default_work_dir, pretrained_images
from tools.dev.faults import planted

pytestmark = pytest.mark.fault
READERS = {
    "features/embeddings.py": ["np.load"],
    "weights/checkpoint_file.py": ["torch.load"],  # weights_only
}
"""All places of the package that could run code in a file."""


TRAP = planted.PROGRAMS["a statement"]
USED = (
    "pretrain photos --work-dir run",
    "finetune w/w.pth labelled --task classify --work-dir run",
)
"""Refused for the files in the folder, some of which are configs."""
TRAIN = "train linear.py --weights w/w.pth --work-dir new"


def test_every_reader_is_known():
    found = {}
    root = Path(mmssprl.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else None
            if name in ("torch.load", "np.load", "numpy.load", "pickle.load", "pickle.loads"):
                found.setdefault(str(path.relative_to(root)), []).append(name)
                assert not any(k.arg == "allow_pickle" for k in node.keywords)
    assert found == READERS


def test_no_program_in_an_image_runs(tmp_path, monkeypatch):
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # not looked for yet
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (24, 24)).save(path, "EPS")
    with pytest.raises(ImageReadError, match="photo.jpg"):
        read_image(path)
    assert not (tmp_path / "sprung").exists()
    assert EpsImagePlugin.has_ghostscript()
    assert (tmp_path / "sprung").exists(), "the trap works"


class TestAnnotationFiles:
    def test_pickles(self, tmp_path):
        plain = {"data_list": [{"img_path": "a.png", "boxes": np.ones((2, 4))}], "metainfo": {}}
        mmengine.dump(plain, tmp_path / "a.pkl")
        read = mmengine.load(tmp_path / "a.pkl")
        assert np.array_equal(read["data_list"][0].pop("boxes"), np.ones((2, 4)))
        assert read["data_list"] == [{"img_path": "a.png"}]
        (tmp_path / "b.pkl").write_bytes(
            pickle.dumps({"a": Call(os.mkdir, str(tmp_path / "sprung"))})
        )
        with pytest.raises(UserError, match=r"posix.mkdir"):
            mmengine.load(tmp_path / "b.pkl")
        assert not (tmp_path / "sprung").exists()

    def test_yaml(self, tmp_path):
        mmengine.dump({"a": [1, 2.5, "b"]}, tmp_path / "a.yaml")
        assert mmengine.load(tmp_path / "a.yaml") == {"a": [1, 2.5, "b"]}
        text = f"a: !!python/object/apply:os.mkdir ['{tmp_path}/sprung']"
        (tmp_path / "b.yml").write_text(text)
        with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
            mmengine.load(tmp_path / "b.yml")
        yaml.unsafe_load(text)  # the trap works
        assert (tmp_path / "sprung").exists()


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """Weights, a pre-training and a fine-tuning in the current folder, a program in each."""
    monkeypatch.chdir(tmp_path)
    planted.write_trap(tmp_path, TRAP)
    write_coco(tmp_path)
    Path("linear.py").write_text(CONFIG.replace("depth=18", "depth=34"))


@pytest.mark.parametrize("command", [*planted.COMMANDS, TRAIN, *USED])
def test_no_command_runs_it(trap, command, capsys):
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
        Path("w/a.py").write_text(re.sub(r"depth=18,\s", "", Path("w/a.py").read_text()))
    assert cli.main(command.split()) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if line.startswith("mmssprl ")]
    assert re.search(told, line)
