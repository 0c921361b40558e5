"""A training of one epoch with the options that only a training shows the effect of."""

import json

import pytest
import timm
import torch
from helpers.timing.paces import stub_pace
from PIL import Image

from mmssprl.cli import main
from mmssprl.engine.launch import prepare_train_config
from mmssprl.engine.launch import run as train

NAME = "ssprl_timm-test_resnet"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """From timm's weights at a rate at which none of them moves, with a third of the images bad."""
    folder = tmp_path_factory.mktemp("run")
    photos = folder / "photos"
    photos.mkdir()
    for i in range(12):
        Image.new("RGB", (40, 36), (20 * i, 2 * i, 3 * i)).save(photos / f"{i:02}.gif")
    for i in range(0, 12, 3):
        (photos / f"{i:02}.gif").write_bytes(b"GIF89a")
    torch.manual_seed(3)
    state = timm.create_model("test_resnet").state_dict()  # with its classifier
    torch.save(state, folder / "timm.pth")
    patch = pytest.MonkeyPatch()
    stub_pace(patch)
    words = ["pretrain", str(photos), "--work-dir", str(folder / "out"), "--weights"]
    words += [str(folder / "timm.pth"), "--backbone", "timm/test_resnet", "--epochs", "1"]
    words += ["--image-px", "32", "--workers", "0", "--max-bad-share", "0.5", "--lr", "1e-30"]
    words += ["--batch-size", "4", "--set", "default_hooks.checkpoint.max_keep_ckpts=1"]
    try:
        assert main(words) == 0
    finally:
        patch.undo()
    return folder, state


def test_training_starts_from_the_weights(run):
    folder, state = run
    trained = torch.load(folder / "out" / f"{NAME}_backbone.pth")
    moving = ("running_mean", "running_var", "num_batches_tracked")
    for key, value in trained.items():
        if not key.endswith(moving):
            assert torch.allclose(value, state[key], atol=1e-6), key
    assert not torch.equal(trained["bn1.running_mean"], state["bn1.running_mean"])
    own = timm.create_model("test_resnet", num_classes=0)
    own.load_state_dict(trained)


def test_a_third_of_bad_images_did_not_stop_it(run):
    folder, _ = run
    assert len((folder / "out" / "bad_images.txt").read_text().splitlines()) == 4


def test_a_resumed_run_keeps_what_it_has_learned(run, tmp_path):
    folder, _ = run
    before = json.loads((folder / "out" / "run.json").read_text())["starts"]
    Image.new("RGB", (40, 36)).save(folder / "photos" / "new.gif")
    cfg = prepare_train_config(
        folder / "out" / f"{NAME}.py",
        work_dir=folder / "out",
        resume="auto",
        cfg_options={"train_cfg.max_epochs": 2, "optim_wrapper.optimizer.lr": 0.01},
    )
    train(cfg, "train")
    starts = json.loads((folder / "out" / "run.json").read_text())["starts"]
    assert starts[:-1] == before
    assert starts[-1]["resumed_from"].endswith("epoch_1.pth")
    log = max((folder / "out").glob("*/*.log")).read_text()
    assert "12 then, 13 now" in log
    assert "tensors of" not in log  # the checkpoint's weights are those that it goes on with
