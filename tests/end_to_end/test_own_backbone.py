import json
import shutil
import sys

import pytest
import torch
from helpers.datasets.photo_folders import write_photos
from helpers.models import own_nets
from helpers.saving.stopped_runs import assert_equal
from helpers.timing.paces import stub_pace

import mmssprl
from mmssprl.cli import main
from mmssprl.console.wording import named_modules
from mmssprl.errors import UserValueError

MODULE = "own_net_of_a_user"
CALLED, GIVEN = (
    f"called/swav-small_{MODULE}-maps_backbone.pth",
    "given/swav-small_Net_backbone.pth",
)
SMALL = {"epochs": 2, "batch_size": 8, "image_px": 32, "num_workers": 0}
SMALL["cfg_options"] = {"default_hooks.checkpoint.max_keep_ckpts": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of two epochs in the current folder, of a function and of a module, which is kept.

    With it come the weights that it began with, and the lines of its run.
    """
    folder = tmp_path_factory.mktemp("user")
    write_photos(folder / "photos", 16)
    module, said = own_nets.vector(), []
    start = {key: value.clone() for key, value in module.state_dict().items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shutil.copy(own_nets.__file__, f"{MODULE}.py")
        mmssprl.pretrain("photos", "given", backbone=module, **SMALL, log=said.append)
        stub_pace(patch)
        words = (
            f"pretrain photos --work-dir called --backbone {MODULE}:maps --epochs 2 --num-workers 0"
        )
        words += " --batch-size 8 --image-px 32"
        words += " --cfg-options default_hooks.checkpoint.max_keep_ckpts=2"
        assert main(words.split()) == 0
        yield folder, module, start, "\n".join(said)


@pytest.fixture
def elsewhere(runs, monkeypatch):
    """The folder of the runs for a new process, which has imported nothing of the user's."""
    monkeypatch.chdir(runs[0])
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    named_modules.clear()
    return runs[0]


def state_of(path):
    return torch.load(path, weights_only=True)


def test_the_users_module_begins_with_its_weights_and_holds_the_trained_ones(runs):
    folder, module, start, said = runs
    trained = state_of(folder / GIVEN)
    assert list(trained) == list(module.state_dict()) == list(start)
    assert_equal(dict(module.state_dict()), trained, "weights")
    moved = [(trained[key] - start[key]).abs().max() for key in start if key.endswith("weight")]
    assert all(0 < each < 0.02 for each in moved)  # drawn anew, they would differ by 0.3
    assert "Net, images of photos" in said
    assert json.loads((folder / "given/recipe.json").read_text())["backbone"] == "Net"


@pytest.mark.parametrize("weights", [CALLED, GIVEN])
def test_a_stopped_run_goes_on_bit_by_bit(weights, runs, tmp_path, monkeypatch):
    folder, *_ = runs
    monkeypatch.setattr("mmssprl.pretraining.start.report_run", lambda *_: None)
    run = shutil.copytree((folder / weights).parent, tmp_path / "run")
    for path in [run / "epoch_2.pth", run / "last_checkpoint", *run.glob("*_backbone.pth")]:
        path.unlink()
    again = own_nets.vector() if weights == GIVEN else f"{MODULE}:maps"
    written = mmssprl.pretrain("photos", run, backbone=again, resume=True)
    assert_equal(state_of(written), state_of(folder / weights), weights)
    if weights == GIVEN:
        assert_equal(dict(again.state_dict()), state_of(written), weights)


def test_a_description_imports_nothing_that_the_user_has_not_named(elsewhere, capsys):
    export = ["export", CALLED, "--to", "pth", "--out", "own.pth"]
    assert main(export) == 2
    assert f"network: it would import '{MODULE}'; begin" in capsys.readouterr().err
    assert MODULE not in sys.modules
    resume = ["pretrain", "photos", "--work-dir", "called", "--resume"]
    assert main(["--import", MODULE, *export]) == 0
    assert own_nets.maps().load_state_dict(state_of("own.pth"), strict=True)
    assert main(["--import", MODULE, *resume]) == 0
    assert f"next: python -m mmssprl --import {MODULE} finetune" in capsys.readouterr().out
    page = (elsewhere / "called/report.html").read_text()
    assert f"mmssprl --import {MODULE} probe swav-small_{MODULE}-maps_backbone.pth random" in page
    assert main(["neighbors", CALLED, "photos/1.png", "photos", "--out", "n.png"]) == 0  # named
    named_modules.clear()
    assert mmssprl.load_backbone(CALLED).num_features == 12  # imported


def test_what_was_a_module_asks_for_it_again(elsewhere, capsys, monkeypatch):
    assert main(["embed", GIVEN, "photos", "rows.npz"]) == 2
    assert main(["pretrain", "photos", "--work-dir", "given", "--resume"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "Net was given to pretrain as a module, which no file holds; load the" in lines[-2]
    assert "own backbone, Net, but got none; give it again" in lines[-1]
    assert "package.module:function" in lines[-1]
    with pytest.raises(UserValueError, match="own backbone, Net, but got Linear"):
        mmssprl.pretrain("photos", "given", backbone=torch.nn.Linear(1, 1), resume=True)
    with pytest.raises(TypeError, match="backbone must be a str or a Module or None, but got 3"):
        mmssprl.pretrain("photos", "new", backbone=3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserValueError, match="gpus is 2; give gpus=1, or .*package.module:fun"):
        mmssprl.pretrain("photos", "new", backbone=own_nets.maps())
