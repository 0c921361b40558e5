import timm
import torch
from helpers.timing.paces import stub_pace
from PIL import Image

from mmssprl.cli import main
from mmssprl.engine.launch import prepare_train_config
from mmssprl.engine.launch import run as train


def test_weights_of_timm_are_the_start_alone_and_a_third_of_bad_images_is_left_out(
    tmp_path, monkeypatch
):
    """At a rate at which no weight moves."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(12):
        Image.new("RGB", (40, 36), (20 * i, 2 * i, 3 * i)).save(photos / f"{i:02}.gif")
    for i in range(0, 12, 3):
        (photos / f"{i:02}.gif").write_bytes(b"GIF89a")
    torch.manual_seed(3)
    state = timm.create_model("test_resnet").state_dict()  # with its classifier
    torch.save(state, tmp_path / "timm.pth")
    stub_pace(monkeypatch)
    words = ["pretrain", str(photos), "--work-dir", str(tmp_path / "out"), "--weights"]
    words += [str(tmp_path / "timm.pth"), "--backbone", "timm/test_resnet", "--epochs", "1"]
    words += ["--image-px", "32", "--num-workers", "0", "--lr", "1e-30"]
    words += ["--batch-size", "4", "--cfg-options", "default_hooks.checkpoint.max_keep_ckpts=1"]
    words += ["train_dataloader.dataset.max_bad_share=0.5"]
    assert main(words) == 0
    assert len((tmp_path / "out" / "bad_images.txt").read_text().splitlines()) == 4
    trained = torch.load(tmp_path / "out" / "swav-small_timm-test_resnet_backbone.pth")
    moving = ("running_mean", "running_var", "num_batches_tracked")
    for key, value in trained.items():
        if not key.endswith(moving):
            assert torch.allclose(value, state[key], atol=1e-6), key
    assert not torch.equal(trained["bn1.running_mean"], state["bn1.running_mean"])
    own = timm.create_model("test_resnet", num_classes=0)
    own.load_state_dict(trained)
    # Resumed, the run keeps what it has learned.
    cfg = prepare_train_config(
        tmp_path / "out" / "swav-small_timm-test_resnet.py",
        work_dir=tmp_path / "out",
        resume="auto",
        cfg_options={"train_cfg.max_epochs": 2},
    )
    train(cfg, "train")
    assert (tmp_path / "out" / "epoch_2.pth").exists()
    assert "tensors of" not in max((tmp_path / "out").glob("*/*.log")).read_text()
