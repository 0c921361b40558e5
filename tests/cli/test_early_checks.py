"""Mistakes that need neither torch nor a look into files are reported before torch is imported."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import get_type_hints

import pytest

from mmssprl.cli import COMMANDS

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
    "report gone": "work_dir must be",
    "convert gone.pth": "file must be",
    "export random --to onnx --config gone.py": "config must be",
    "select gone.npz": "embeddings must be",
    "neighbors random . . --embeddings gone.npz": "embeddings must be",
    "predict gone . --out out": "run_dir must be",
    "visualize views gone.py a.jpg out.png": "config must be",
    "visualize features . out.png --weights random gone.pth": "weights must be",
    "visualize figures gone out.html": "work_dir must be",
    "compare --data gone": "data must be",
    "benchmark gone.pth": "weights must be",
}
UNCHECKED = {
    *("work_dir", "out", "out_dir"),  # are made
    *("methods", "reference", "protocols", "size"),  # names that need configs or files of rows
    *("data", "prefix", "resume", "to"),  # of `benchmark`, `convert`, `train` and `export`
}
"""Names of text options of some commands that are looked at later, or have choices."""
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


def all_commands(commands):
    for command in commands:
        yield command
        yield from all_commands(command.subcommands)


def test_every_option_that_may_be_wrong_has_a_check():
    unchecked = set()
    for command in all_commands(COMMANDS.values()):
        if command.subcommands:
            continue
        hints = get_type_hints(command)
        for each in fields(command):
            is_text = hints[each.name] in (str, str | None, Sequence[str], Sequence[str] | None)
            if is_text and each.metadata.get("check") is None:
                unchecked.add(each.name)
    assert unchecked <= UNCHECKED


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Exit code, message, and whether torch was imported, by command."""
    command = [sys.executable, "-c", RUN, json.dumps(list(MISTAKES))]
    folder = tmp_path_factory.mktemp("early")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_reported_before_torch_is_imported(words, said):
    code, message, has_torch = said[words]
    assert code == 2
    assert MISTAKES[words] in message
    assert message.count("\n") == 1
    assert not has_torch
