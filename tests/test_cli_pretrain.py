"""The config that `pretrain` makes of its options."""

import pytest
import torch
from mmengine.config import Config
from PIL import Image

from mmssprl.cli import main, pretrain
from mmssprl.engine.pretrain_checks import check_pretraining


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for i in range(40):
        Image.new("RGB", (64, 48), (i, 2 * i, 3 * i)).save(folder / f"{i}.png")
    return folder


def config_of(photos, work_dir, monkeypatch, *options):
    """The config written for a run that is not started."""
    monkeypatch.setattr(pretrain, "_train", lambda config, work_dir, resume: 0)
    arguments = ["pretrain", str(photos), "--work-dir", str(work_dir), "--backbone", "resnet18"]
    assert main([*arguments, *options]) == 0
    return Config.fromfile(work_dir / "ssprl_resnet18.py")


def test_accumulated_images_are_one_batch_of_the_loader(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    options = ("--batch-size", "4", "--epochs", "6")
    plain = config_of(photos, tmp_path / "a", monkeypatch, *options)
    assert "4 images x 1 device(s)  " in capsys.readouterr().out
    cfg = config_of(photos, tmp_path / "b", monkeypatch, *options, "--accumulate", "3")
    out = capsys.readouterr().out
    assert "12 images x 1 device(s), in 3 parts" in out
    assert "6, 18 updates" in out  # 40 // 12 = 3 steps an epoch
    assert (plain.model.num_chunks, cfg.model.num_chunks) == (1, 3)
    assert (plain.train_dataloader.batch_size, cfg.train_dataloader.batch_size) == (4, 12)
    assert cfg.train_dataloader.drop_last
    assert cfg.auto_scale_lr.base_batch_size == 12  # mmengine's rule: batch x processes
    lr, plain_lr = (c.optim_wrapper.optimizer.lr for c in (cfg, plain))
    assert lr == pytest.approx(3 * plain_lr)
    assert "accumulative_counts" not in cfg.optim_wrapper
    head = cfg.model.head
    for length, patches in zip(
        [head.queue_length, *head.patch_queue_length], (1, 4, 9), strict=True
    ):
        assert length % (12 * patches) == 0
    check_pretraining(cfg)


def test_too_many_accumulated_images(photos, tmp_path, capsys):
    arguments = ["pretrain", str(photos), "--work-dir", str(tmp_path / "run")]
    assert main([*arguments, "--batch-size", "16", "--accumulate", "4"]) == 2
    assert "got batch size 16 4 times on" in capsys.readouterr().err
