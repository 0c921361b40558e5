import argparse
import inspect
import re
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch
from helpers.datasets.photo_folders import write_photos
from helpers.pretraining.paces import stub_pace
from mmengine.config import Config

import mmssprl
from mmssprl._api import PLACES
from mmssprl.cli import build_parser
from mmssprl.datasets.labels import DEFAULT_VAL_SHARE
from mmssprl.finetuning.options import FinetuneOptions
from mmssprl.runs import start

ROOMS = sorted({f"mmssprl.{place.split(':')[0]}" for place in PLACES.values()})
IN_A_NEW_PROCESS = f"""
import os, sys, threading
before = dict(os.environ)
import mmssprl
dir(mmssprl)
assert dict(os.environ) == before, "the import sets no variable"
assert threading.active_count() == 1, "the import starts no thread"
heavy = {{"torch", "mmengine", "mmpretrain", "matplotlib", "sklearn", "numpy", "PIL", "rich"}}
assert not heavy & set(sys.modules), "the import is light"

from mmssprl.pretraining.options import PretrainOptions
assert "torch" not in sys.modules
mmssprl.pretrain
assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE", "set before torch is loaded"

from mmssprl.registry import OPTIMIZERS, VISUALIZERS
for found in (OPTIMIZERS.get("LARS"), VISUALIZERS.get("UniversalVisualizer")):
    assert found.__module__.startswith("mmpretrain."), "bare names of mmpretrain are found"

import mmssprl.cli, {", ".join(ROOMS)}
from mmssprl import {", ".join(mmssprl.__all__)}
assert all(callable(globals()[name]) for name in mmssprl.__all__), "not modules of these names"
"""


@pytest.mark.fence
def test_imports_of_a_new_process():
    subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS], check=True)


def test_dir_lists_the_api_alone():
    assert [name for name in dir(mmssprl) if not name.startswith("__")] == mmssprl.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mmssprl' has no attribute 'embedd'"):
        _ = mmssprl.embedd


@pytest.mark.parametrize(
    ("name", "options"), [("pretrain", mmssprl.PretrainOptions), ("finetune", FinetuneOptions)]
)
def test_a_function_has_the_options_of_its_command(name, options):
    """The function has each option as a keyword, of the same type and default; so has its help."""
    function = getattr(mmssprl, name)
    parameters = inspect.signature(function).parameters.values()
    keywords = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}
    del keywords["log"]
    [commands] = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    actions = commands.choices[name]._actions
    of_command = {action.dest: action for action in actions if action.option_strings}
    assert [*keywords] == [each.name for each in fields(options)]
    of_command_alone = {"help", "work_dir", "task", "baseline", "seeds", "jobs"}
    assert of_command.keys() - of_command_alone == keywords.keys()
    for each in fields(options):
        assert keywords[each.name].annotation == each.type
        assert keywords[each.name].default is of_command[each.name].default is each.default
        assert f"\n    {each.name}: " in function.__doc__
    assert name != "finetune" or f"default: {DEFAULT_VAL_SHARE}" in function.__doc__


@pytest.fixture
def folder(tmp_path, monkeypatch, on_cpu):
    """Photographs, a file, and the work dir of a run that is not trained."""
    monkeypatch.chdir(tmp_path)
    stub_pace(monkeypatch)
    monkeypatch.setattr(start, "train_config", lambda *args, **options: None)
    write_photos(tmp_path / "photos", 8)
    (tmp_path / "other.pth").touch()
    options = {"backbone": "resnet18", "epochs": 1, "log": lambda line: None}
    mmssprl.pretrain("photos", "work_dirs/others", **options)
    return tmp_path


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: mmssprl.pretrain("photos", epoch=3), TypeError, "epoch epochs?"),
        (lambda: mmssprl.pretrain("photos", epochs="3"), TypeError, "epochs int '3'"),
        (lambda: mmssprl.pretrain("photos", epochs=True), TypeError, "epochs int True"),
        (lambda: mmssprl.probe(torch.nn.Linear(1, 1), "d"), TypeError, "Linear FeatureBackbone"),
        (lambda: mmssprl.pretrain("d", backbone=torch.nn.ReLU()), TypeError, "ReLU; my_net:"),
        (lambda: mmssprl.pretrain("photos", backbone="__main__:f"), ValueError, "import my_net:f."),
        (lambda: mmssprl.embed("random", "photos", device="gpu"), ValueError, "device 'gpu'"),
        (lambda: mmssprl.report("other.pth"), ValueError, "run other.pth file folder"),
        (lambda: mmssprl.pretrain("photos", epochs=-1), ValueError, "epochs 1 -1"),
        (lambda: mmssprl.pretrain("photos", backbone="resnet19"), ValueError, "resnet18?"),
        (lambda: mmssprl.pretrain("photos", "work_dirs/others"), FileExistsError, "others resume"),
        (lambda: mmssprl.pretrain("photos", resume=True), FileNotFoundError, "resume work_dir"),
    ],
)
def test_a_newcomers_mistake_is_one_line_in_the_words_of_python(call, kind, words, folder):
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words.split())
    assert not re.search(r"\n| --|\b(DIR|RUN)\b", message), "no words of the command line"


def test_arguments_may_be_paths_or_numbers_of_numpy(folder):
    options = {"backbone": "resnet18", "epochs": np.int64(1), "lr": np.float64(0.5)}
    mmssprl.pretrain(folder / "photos", folder / "run", **options, log=lambda line: None)
    cfg = Config.fromfile(folder / "run/swav-small_resnet18.py")
    assert (cfg.train_cfg.max_epochs, cfg.optim_wrapper.optimizer.lr) == (1, 0.5)
