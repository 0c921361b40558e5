"""No file that a user gives runs code; tests/saving/test_checkpoint_safety.py has the trainings."""

import ast
import os
import pickle
from pathlib import Path

import mmengine
import numpy as np
import pytest
import torch
import yaml
from helpers.datasets.image_folders import folder
from helpers.experiments.tiny_benchmark import save_backbone
from helpers.weights.traps import NARROW, Calling
from mmengine.config import Config
from PIL import EpsImagePlugin, Image

import mmssprl
from mmssprl import cli
from mmssprl.datasets.image_reading import ImageReadError, read_image
from mmssprl.errors import UserError
from mmssprl.weights import torch_file

pytestmark = pytest.mark.fault
READERS = {"features/embeddings.py": ["np.load"]}
"""All places of the package that could run code in a file."""

RUNS_CONFIGS = {
    "config/reading.py": ["Config.fromfile"],
    "engine/launch.py": ["read_config_file"],  # CONFIG of train and test
    "timing/forecast.py": ["Config.fromfile"],  # what it has just written
    "timing/training.py": ["read_config_file"],  # CONFIG
    "visualization/views.py": ["read_config_file"],  # CONFIG
    "weights/backbone.py": ["read_config_file"],  # --config
    "weights/convert.py": ["read_config_file"],  # --config, or a shipped one
    "experiments/compare/setting.py": ["read_config_file"],  # --method NAME=CONFIG, or shipped
    "experiments/compare/training.py": ["Config.fromfile"],  # the same
    "experiments/benchmark/plan.py": ["Config.fromfile"] * 3,  # shipped
    "experiments/benchmark/start.py": ["Config.fromfile"] * 2,  # shipped
    "experiments/benchmark/tables.py": ["Config.fromfile"] * 3,  # shipped
    "timing/operations.py": ["Config.fromfile"],  # shipped
    "finetuning/config.py": ["Config.fromfile"],  # shipped
    "pretraining/methods/method.py": ["Config.fromfile"],  # shipped
    "visualization/method.py": ["read_config_file"],  # named
}
"""All places of the package that run a config, and who has named it."""


def calls():
    """Each call in the package: its file, what is called, and the arguments with a name."""
    root = Path(mmssprl.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield str(path.relative_to(root)), ast.unparse(node.func), node.keywords


def test_every_reader_is_known():
    found = {}
    for path, name, keywords in calls():
        if name in ("torch.load", "np.load", "numpy.load", "pickle.load", "pickle.loads"):
            found.setdefault(path, []).append(name)
            assert not any(k.arg == "allow_pickle" for k in keywords)
    assert {name: sorted(readers) for name, readers in found.items()} == READERS


def test_only_configs_that_are_named_run():
    found = {}
    runners = ("Config.fromfile", "Config.fromstring", "read_config_file", "eval", "exec")
    for path, name, _ in calls():
        if name in runners or name.startswith("runpy."):
            found.setdefault(path, []).append(name)
    assert found == RUNS_CONFIGS


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """Backbone weights, and a trap that works, in ``w.pth`` of the current folder."""
    monkeypatch.chdir(tmp_path)
    save_backbone(tmp_path / "w.pth", NARROW)
    content = torch.load("w.pth", weights_only=True)
    torch.save({**content, "trap": Calling(os.mkdir, str(tmp_path / "sprung"))}, "w.pth")
    torch.load("w.pth", weights_only=False)
    (tmp_path / "sprung").rmdir()
    folder(tmp_path / "photos", 3)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["embed", "w.pth", "photos", "out.npz"], 0),
        (["export", "w.pth", "--to", "backbone", "--out", "o.pth"], 0),
        (["convert", "w.pth", "--from", "auto", "--out", "o.pth"], 2),
        (["visualize", "prototypes", "run", "out.png"], 2),
        (["neighbors", "w.pth", "photos/00.png", "photos", "--embeddings", "w.pt"], 2),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else None,
)
def test_no_command_runs_it(weights, monkeypatch, words, status):
    (weights / "run").mkdir()
    Config({"model": {"backbone": NARROW}}).dump("run/a.py")
    for copy in ("run/epoch_1.pth", "w.pt"):
        Path(copy).write_bytes(Path("w.pth").read_bytes())
    opened = []
    look = torch_file.stored_parts
    monkeypatch.setattr(
        torch_file, "stored_parts", lambda f: opened.append(Path(f.name).name) or look(f)
    )
    assert cli.main(words) == status
    assert opened, "the file was looked at"
    assert not (weights / "sprung").exists()


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
            pickle.dumps({"a": Calling(os.mkdir, str(tmp_path / "sprung"))})
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
