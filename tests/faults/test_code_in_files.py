"""No file that is read runs code; tests/saving/test_checkpoint_safety.py tests checkpoints."""

import ast
import os
import pickle
from pathlib import Path

import mmengine
import numpy as np
import pytest
import yaml
from helpers.weights.traps import Call
from PIL import EpsImagePlugin, Image

import mmssprl
from mmssprl.datasets.image_reading import ImageReadError, read_image
from mmssprl.errors import UserError

pytestmark = pytest.mark.fault
READERS = {
    "search/embeddings.py": ["np.load"],
    "distillation/teacher_pass.py": ["np.load"],
    "weights/checkpoint_file.py": ["torch.load"],  # weights_only
}
"""All calls in the package that could run code in a file."""


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
    def test_a_pickle_of_plain_values_is_read(self, tmp_path):
        plain = {"boxes": np.arange(8).reshape(2, 4), "names": ["a", 2.5]}
        mmengine.dump(plain, tmp_path / "a.pkl")
        read = mmengine.load(tmp_path / "a.pkl")
        assert read["names"] == plain["names"]
        assert read["boxes"].tolist() == plain["boxes"].tolist()

    def test_a_pickle_that_runs_code_is_refused(self, tmp_path):
        folder = tmp_path / "sprung"
        (tmp_path / "b.pkl").write_bytes(pickle.dumps(Call(os.mkdir, str(folder))))
        with pytest.raises(UserError, match=r"posix.mkdir"):
            mmengine.load(tmp_path / "b.pkl")
        assert not folder.exists()

    def test_yaml_of_plain_values_is_read(self, tmp_path):
        mmengine.dump({"a": [1, 2.5, "b"]}, tmp_path / "a.yaml")
        assert mmengine.load(tmp_path / "a.yaml") == {"a": [1, 2.5, "b"]}

    def test_yaml_that_runs_code_is_refused(self, tmp_path):
        folder = tmp_path / "sprung"
        path = tmp_path / "b.yml"
        path.write_text(f"a: !!python/object/apply:os.mkdir ['{folder}']")
        with pytest.raises(yaml.YAMLError, match="could not determine a constructor"):
            mmengine.load(path)
        assert not folder.exists()
        yaml.unsafe_load(path.read_text())  # the trap works
        assert folder.exists()
