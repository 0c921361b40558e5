"""The shipped configs of MoCo v2 and DenseCL build, take a step, and hold what is published."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from own_views import model_and_batch

from mmssprl.config import run_checks

FOLDER = Path(__file__).parents[2] / "configs" / "baselines"
METHODS = {"mocov2": "MoCo", "densecl": "DenseCL"}
COCO = "resnet50_2xb64-coslr-200e_coco"
IMAGENET = "resnet50_8xb32-coslr-100e_in1k"
SMALL = ["resnet18_scenes", "resnet18_photos", "resnet18_photos-gpu"]
NAMES = [f"{method}_{data}" for method in METHODS for data in (COCO, IMAGENET, *SMALL)]

SHORT_QUEUE = f"mocov2-k4096_{COCO}"


def load(name):
    return Config.fromfile(FOLDER / f"{name}.py")


def test_there_are_no_others():
    found = [path.stem for method in METHODS for path in FOLDER.glob(f"{method}*.py")]
    assert sorted(found) == sorted([*NAMES, SHORT_QUEUE])


def test_the_short_queue_changes_nothing_else():
    short, base = load(SHORT_QUEUE), load(f"mocov2_{COCO}")
    assert (short.model.queue_length, short.model.momentum) == (4096, 0.995)
    base.merge_from_dict({"model": {"queue_length": 4096, "momentum": 0.995}})
    assert short.to_dict() == base.to_dict()


@pytest.mark.parametrize("name", NAMES)
def test_builds_and_takes_one_step_on_its_own_views(name, monkeypatch):
    cfg = load(name)
    model, data = model_and_batch(cfg, 4)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    assert type(model).__name__ == METHODS[name.split("_")[0]]
    assert wrapper.get_lr()["lr"] == [cfg.base_lr]
    model.on_epoch_length(10)
    with torch.no_grad():
        losses = model(**data, mode="loss")
    assert all(torch.isfinite(loss) for loss in losses.values())
    sizes = {"scenes": 1200, "photos": 4500, "photos-gpu": 4500}
    num_images = sizes.get(name.rsplit("_")[-1], 82783)
    model.check_training(num_images, cfg.train_dataloader.batch_size)
    warnings = []
    monkeypatch.setattr(run_checks, "print_log", lambda text, **_: warnings.append(text))
    run_checks.warn_of_schedule(cfg)
    assert warnings == []
    assert cfg.sync_bn is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [COCO, IMAGENET])
def test_published_settings(method, data):
    cfg = load(f"{method}_{data}")
    assert (cfg.layout.image_px, cfg.layout.image_area) == (224, (0.2, 1.0))
    assert dict(cfg.model.data_preprocessor) == {
        "type": "PyramidPreprocessor",
        "flip_prob": 0.5,
        "brightness": 0.4,
        "contrast": 0.4,
        "saturation": 0.4,
        "hue": 0.1,
        "jitter_prob": 0.8,
        "grayscale_prob": 0.2,
        "blur_prob": 0.5,
        "blur_sigma": (0.1, 2.0),
    }
    assert dict(cfg.model.backbone) == {"type": "ResNet", "depth": 50, "zero_init_residual": False}
    assert dict(cfg.model.neck) == {"in_channels": 2048, "hid_channels": 2048, "out_channels": 128}
    settings = (cfg.model.queue_length, cfg.model.momentum, cfg.model.temperature)
    assert settings == (65536, 0.999, 0.2)
    assert cfg.train_dataloader.batch_size / cfg.model.bn_groups == 32
    epochs, images, rate = (200, 128, 0.15) if data == COCO else (100, 256, 0.03)
    assert (cfg.train_cfg.max_epochs, cfg.auto_scale_lr.base_batch_size) == (epochs, images)
    assert cfg.train_dataloader.batch_size * cfg.num_gpus == images
    optimizer = {"type": "SGD", "lr": pytest.approx(rate), "momentum": 0.9, "weight_decay": 1e-4}
    assert dict(cfg.optim_wrapper.optimizer) == optimizer
    if method == "densecl":
        assert (cfg.model.loss_lambda, cfg.model.dense_start_epoch) == (0.5, 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", SMALL)
def test_small_recipe_shares_data_network_and_photometrics_with_ssprl(method, data):
    ours = load(f"{method}_{data}")
    base = Config.fromfile(FOLDER.parent / "ssprl" / f"ssprl_{data}.py")
    assert ours.model.data_preprocessor == base.model.data_preprocessor
    assert ours.model.backbone == base.model.backbone
    assert ours.train_dataloader.dataset.data_root == base.train_dataloader.dataset.data_root
    assert ours.layout.image_px == base.layout.image_px
    assert (ours.layout.image_area, ours.layout.levels) == (base.layout.image_area, [])
    assert (ours.train_dataloader.batch_size, ours.max_epochs) == (64, base.max_epochs)
    lr = 1e-3 if data == "resnet18_photos-gpu" else 2e-3
    assert dict(ours.optim_wrapper.optimizer) == {"type": "AdamW", "lr": lr, "weight_decay": 1e-4}
    momentum = 0.97 if data == "resnet18_scenes" else 0.99
    assert (ours.model.queue_length, ours.model.bn_groups) == (512, 4)
    assert (ours.model.momentum, ours.model.temperature) == (momentum, 0.2)
    if method == "densecl":
        assert (ours.model.loss_lambda, ours.model.dense_start_epoch) == (0.5, 1)
