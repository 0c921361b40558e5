"""A toy training with its checkpoints, and every way to open one."""

import shutil

import pytest
from helpers.engine.toy_run import write_config
from helpers.package.default_scope import own_default_scope
from helpers.saving.stopped_runs import train

from mmssprl.engine.launch import launch, prepare_test_config, prepare_train_config

SCHEDULE = """
train_cfg = dict(by_epoch=True, max_epochs=2)
param_scheduler = [dict(type="CosineAnnealingLR", T_max=2)]
"""
BEST = """
val_dataloader = test_dataloader
val_evaluator = test_evaluator
val_cfg = dict(type="ValLoop")
default_hooks = dict(
    checkpoint=dict(type="CheckpointHook", interval=1, save_best="total", rule="greater"),
)
"""
"""Text of a config that keeps the best checkpoint of the toy."""


def train_toy(folder, *hooks, epochs=2, text="", **arguments):
    """Train the toy of four steps an epoch in ``folder``/run."""
    text = SCHEDULE.replace("max_epochs=2", f"max_epochs={epochs}") + text
    train(write_config(folder, text), folder / "run", hooks=hooks, **arguments)


@pytest.fixture(scope="session")
def toy_training(tmp_path_factory):
    """The work dir of a toy training of two epochs."""
    folder = tmp_path_factory.mktemp("trained")
    with own_default_scope():  # the session's other tests must not see the toy's
        train_toy(folder)
    return folder / "run"


@pytest.fixture
def work(toy_training, tmp_path, monkeypatch):
    """A copy of it as ``run`` in the current folder, as if stopped after the first epoch.

    Next to it are the toy's config, ``toy.py``, and the second epoch's checkpoint, ``whole.pth``.
    """
    monkeypatch.chdir(tmp_path)
    shutil.copytree(toy_training, tmp_path / "run")
    write_config(tmp_path, SCHEDULE)
    (tmp_path / "run/last_checkpoint").write_text("run/epoch_1.pth")
    (tmp_path / "run/epoch_2.pth").rename(tmp_path / "whole.pth")
    return tmp_path


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def prepared(prepare, *args, mode=None, **options):
    """A function of the folder ``work`` that prepares a config, and runs it where asked."""

    def call(work):
        cfg = prepare("toy.py", *args, **{"work_dir": "new", **options})
        if mode:
            launch(cfg, mode)

    return call


_FIRST = "run/epoch_1.pth"
resume_by = prepared(prepare_train_config, work_dir="run", resume="auto", mode="train")
resume_file = prepared(prepare_train_config, work_dir="run", resume=_FIRST)
resume_newest = prepared(prepare_train_config, work_dir="run", resume="auto")
resume_by_config = prepared(prepare_train_config, cfg_options={"resume": True, "load_from": _FIRST})
load_from = prepared(prepare_train_config, cfg_options={"load_from": _FIRST}, mode="train")
tools_test = prepared(prepare_test_config, _FIRST, mode="test")
tools_test_of_a_folder = prepared(prepare_test_config, "run", mode="test")
RESUMING = [resume_file, resume_newest, resume_by_config]
LOADING = [load_from, tools_test, tools_test_of_a_folder]
