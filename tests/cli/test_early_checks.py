"""Mistakes that need neither torch nor a look into files are told before torch is imported."""

import json
import subprocess
import sys

import pytest

MISTAKES = {
    "pretrain . --method swaw": "did you mean swav?",
    "pretrain . --backbone resnet19": "did you mean resnet18?",
    "pretrain gone": "images must be",
    "pretrain . --weights gone.pth": "weights must be",
    "pretrain . --teacher timm/resnet18:gone.pth": "teacher must be",
    "pretrain . --probe gone": "probe must be",
    "pretrain . --budget soon": "budget must be a time",
    "pretrain . --epochs 0": "epochs must be at least 1",
    "train gone.py": "config must be",
    "finetune gone.pth . --task detect": "weights must be",
    "finetune random gone --task detect": "data must be",
    "probe random gone.pth .": "weights must be",
    "embed random gone out.npz": "images must be",
    "embed random . out.npz --config gone.py": "config must be",
    "neighbors random gone.jpg .": "query must be",
    "predict . gone --out out": "images must be",
    "export gone.pth --to onnx": "weights must be",
    "report . --images gone": "images must be",
}
RUN = """
import contextlib, io, json, sys
from mmssprl.cli import main
said = {}
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as error:
        code = main(words.split())
    said[words] = [code, error.getvalue(), "torch" in sys.modules]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Exit code, message, and whether torch was imported, by command."""
    command = [sys.executable, "-c", RUN, json.dumps(list(MISTAKES))]
    folder = tmp_path_factory.mktemp("early")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_before_torch_is_imported(words, said):
    code, message, has_torch = said[words]
    assert code == 2
    assert MISTAKES[words] in message
    assert message.count("\n") == 1
    assert not has_torch
