"""A run of a user's own network, and later commands, which import only what is named."""

import contextlib
import importlib
import io
import shutil
import sys
from pathlib import Path

import pytest
import torch
from helpers.datasets.photo_folders import write_photos
from helpers.models import own_nets
from helpers.pretraining.paces import stub_pace
from helpers.saving.stopped_runs import assert_equal

import mmssprl
from mmssprl.cli import main
from mmssprl.system.trusted_modules import named_modules

MODULE = "own_net_of_a_user"
RUN = Path("called")
WEIGHTS = RUN / f"swav-small_{MODULE}-maps_backbone.pth"


def state_of(path):
    return torch.load(path, weights_only=True)


def forget_module():
    """Make this process like a new one, which has imported nothing of the user's."""
    sys.modules.pop(MODULE, None)
    named_modules.clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder after a run of two epochs on the user's network."""
    folder = tmp_path_factory.mktemp("user")
    write_photos(folder / "photos", 16)
    shutil.copy(own_nets.__file__, folder / f"{MODULE}.py")
    words = f"pretrain photos --work-dir {RUN} --backbone {MODULE}:maps --epochs 2 --num-workers 0"
    words += " --batch-size 8 --image-px 32 --cfg-options default_hooks.checkpoint.max_keep_ckpts=2"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stub_pace(patch)
        assert main(words.split()) == 0
    return folder


@pytest.fixture(autouse=True)
def new_process(folder, monkeypatch):
    """Begin and end like a new process in the user's folder."""
    monkeypatch.chdir(folder)
    forget_module()
    yield
    forget_module()


def export(out, *words):
    return main([*words, "export", str(WEIGHTS), "--to", "pth", "--out", str(out)])


def test_a_module_that_is_not_named_is_not_imported(tmp_path, capsys):
    assert export(tmp_path / "own.pth") == 2
    said = capsys.readouterr().err
    assert f"begin the command with `python -m mmssprl --import {MODULE}`" in said
    assert "Delete" not in said
    assert MODULE not in sys.modules


def test_an_export_has_the_names_of_the_network(tmp_path):
    assert export(tmp_path / "own.pth", "--import", MODULE) == 0
    assert own_nets.maps().load_state_dict(state_of(tmp_path / "own.pth"), strict=True)


def test_a_name_on_the_command_line_lasts_for_the_process(tmp_path):
    assert export(tmp_path / "own.pth", "--import", MODULE) == 0
    argv = ["neighbors", str(WEIGHTS), "photos/1.png", "photos", "--out", str(tmp_path / "n.png")]
    assert main(argv) == 0


def test_an_imported_module_needs_no_name(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    importlib.import_module(MODULE)
    assert mmssprl.load_backbone(WEIGHTS).num_features == 12


@pytest.fixture(scope="module")
def resumed(folder):
    """The run after its second epoch was lost and made again, and what the command said."""
    whole = state_of(folder / WEIGHTS)
    for name in ("epoch_2.pth", "last_checkpoint", WEIGHTS.name):
        (folder / RUN / name).unlink()
    forget_module()
    argv = ["--import", MODULE, "pretrain", "photos", "--work-dir", str(RUN), "--resume"]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.chdir(folder)
        assert main(argv) == 0
    return whole, said.getvalue()


def test_a_resumed_run_is_bit_equal(resumed):
    whole, _ = resumed
    assert_equal(state_of(WEIGHTS), whole, "weights")


def test_commands_that_are_proposed_name_the_module(resumed):
    _, said = resumed
    assert f"next: python -m mmssprl --import {MODULE} embed" in said
    assert "next: python -m mmssprl select features.npz" in said  # reads no weights
    page = (RUN / "report.html").read_text()
    assert f"mmssprl --import {MODULE} probe swav-small_{MODULE}-maps_backbone.pth random" in page
