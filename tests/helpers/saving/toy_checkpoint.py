"""A toy training with its checkpoints, and all the ways in which a run opens one."""

import shutil

import pytest
from helpers.engine.toy_run import write_config
from helpers.package.default_scope import own_default_scope

from mmssprl.engine.launch import prepare_test_config, prepare_train_config, run


@pytest.fixture(scope="session")
def toy_training(tmp_path_factory):
    """The work dir of a toy training of two epochs."""
    folder = tmp_path_factory.mktemp("trained")
    config = write_config(folder)
    # mmengine's own name ends in the second: runs of the same one would share their history.
    config.write_text(f"{config.read_text()}{SCHEDULE}experiment_name = {folder.name!r}\n")
    with own_default_scope():  # the session's other tests must not see the toy's
        run(prepare_train_config(config, work_dir=folder / "run"), "train")
    return folder / "run"


SCHEDULE = """
train_cfg = dict(by_epoch=True, max_epochs=2)
param_scheduler = [dict(type="CosineAnnealingLR", T_max=2)]
"""


@pytest.fixture
def work(toy_training, tmp_path, monkeypatch):
    """A copy of it as ``run`` in the current folder, as if stopped after the first epoch.

    The toy's config is beside it as ``toy.py``, and the second epoch's checkpoint as ``whole.pth``.
    """
    monkeypatch.chdir(tmp_path)
    shutil.copytree(toy_training, tmp_path / "run")
    config = write_config(tmp_path)
    config.write_text(config.read_text() + SCHEDULE)
    (tmp_path / "run/last_checkpoint").write_text("run/epoch_1.pth")
    (tmp_path / "run/epoch_2.pth").rename(tmp_path / "whole.pth")
    return tmp_path


def go_on(work):
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
