import shutil
import sys

import pytest
import torch
from helpers.datasets.photo_folders import write_photos
from helpers.models import own_nets
from helpers.pretraining.paces import stub_pace
from helpers.saving.stopped_runs import assert_equal

import mmssprl
from mmssprl.cli import main
from mmssprl.console.wording import named_modules

MODULE = "own_net_of_a_user"
CALLED = f"called/swav-small_{MODULE}-maps_backbone.pth"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run of two epochs of a user's function."""
    folder = tmp_path_factory.mktemp("user")
    write_photos(folder / "photos", 16)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shutil.copy(own_nets.__file__, f"{MODULE}.py")
        stub_pace(patch)
        words = f"pretrain photos --work-dir called --backbone {MODULE}:maps --epochs 2"
        words += " --num-workers 0 --batch-size 8 --image-px 32"
        words += " --cfg-options default_hooks.checkpoint.max_keep_ckpts=2"
        assert main(words.split()) == 0
        yield folder


def state_of(path):
    return torch.load(path, weights_only=True)


def test_a_resumed_run_is_bit_equal(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("mmssprl.pretraining.start.report_run", lambda *_: None)
    run = shutil.copytree(folder / "called", tmp_path / "run")
    for path in [run / "epoch_2.pth", run / "last_checkpoint", *run.glob("*_backbone.pth")]:
        path.unlink()
    written = mmssprl.pretrain("photos", run, resume=True)
    assert_equal(state_of(written), state_of(folder / CALLED), "weights")


def test_a_description_imports_nothing_that_the_user_has_not_named(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)  # in a new process, which has imported nothing of the user's
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    named_modules.clear()
    export = ["export", CALLED, "--to", "pth", "--out", "own.pth"]
    assert main(export) == 2
    assert f"network: it would import '{MODULE}'; begin" in capsys.readouterr().err
    assert MODULE not in sys.modules
    resume = ["pretrain", "photos", "--work-dir", "called", "--resume"]
    assert main(["--import", MODULE, *export]) == 0
    assert own_nets.maps().load_state_dict(state_of("own.pth"), strict=True)
    assert main(["--import", MODULE, *resume]) == 0
    assert f"next: python -m mmssprl --import {MODULE} embed" in capsys.readouterr().out
    page = (folder / "called/report.html").read_text()
    assert f"mmssprl --import {MODULE} probe swav-small_{MODULE}-maps_backbone.pth random" in page
    assert main(["neighbors", CALLED, "photos/1.png", "photos", "--out", "n.png"]) == 0  # named
    named_modules.clear()
    assert mmssprl.load_backbone(CALLED).num_features == 12  # imported
