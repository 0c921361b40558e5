"""A toy training with its checkpoints, and all the ways in which a run opens one."""

import itertools
import shutil

import pytest
from helpers.engine.toy_run import write_config
from helpers.package.default_scope import own_default_scope

from mmssprl.engine.launch import prepare_test_config, prepare_train_config, run

SCHEDULE = """
train_cfg = dict(by_epoch=True, max_epochs=2)
param_scheduler = [dict(type="CosineAnnealingLR", T_max=2)]
"""
_NUMBERS = itertools.count()


def train_toy(folder, *hooks, epochs=2, text="", options=None, **arguments):
    """Train the toy of four steps an epoch in ``folder``/run."""
    text = SCHEDULE.replace("max_epochs=2", f"max_epochs={epochs}") + text
    cfg = prepare_train_config(
        write_config(folder, text), work_dir=folder / "run", cfg_options=options or {}, **arguments
    )
    # Two runners in one second would share mmengine's name, and with it their history.
    cfg.experiment_name = f"toy_{next(_NUMBERS)}"
    run(cfg, "train", hooks=hooks)


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

    The toy's config is beside it as ``toy.py``, and the second epoch's checkpoint as ``whole.pth``.
    """
    monkeypatch.chdir(tmp_path)
    shutil.copytree(toy_training, tmp_path / "run")
    write_config(tmp_path, SCHEDULE)
    (tmp_path / "run/last_checkpoint").write_text("run/epoch_1.pth")
    (tmp_path / "run/epoch_2.pth").rename(tmp_path / "whole.pth")
    return tmp_path


def resume_by(work):
    run(prepare_train_config("toy.py", work_dir="run", resume="auto"), "train")


def resume_file(work):
    prepare_train_config("toy.py", work_dir="run", resume="run/epoch_1.pth")


def resume_newest(work):
    prepare_train_config("toy.py", work_dir="run", resume="auto")


def resume_by_config(work):
    options = {"resume": True, "load_from": "run/epoch_1.pth"}
    prepare_train_config("toy.py", work_dir="new", cfg_options=options)


def load_from(work):
    options = {"load_from": "run/epoch_1.pth"}
    run(prepare_train_config("toy.py", work_dir="new", cfg_options=options), "train")


def tools_test(work):
    run(prepare_test_config("toy.py", "run/epoch_1.pth", work_dir="new"), "test")


def tools_test_of_a_folder(work):
    run(prepare_test_config("toy.py", "run", work_dir="new"), "test")


RESUMING = [resume_file, resume_newest, resume_by_config]
LOADING = [load_from, tools_test, tools_test_of_a_folder]
