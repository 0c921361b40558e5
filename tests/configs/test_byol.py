"""The shipped BYOL configs build, take a step, and hold what is published."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from own_views import model_and_batch

from mmssprl.engine import LARC

FOLDER = Path(__file__).parents[2] / "configs" / "baselines"
COCO = "byol_resnet50_2xb64-coslr-200e_coco"
IMAGENET = "byol_resnet50_8xb32-coslr-100e_in1k"
SIZES = ["scenes", "photos", "photos-gpu"]
NAMES = [COCO, IMAGENET, *(f"byol_resnet18_{size}" for size in SIZES)]


def load(name):
    return Config.fromfile(FOLDER / f"{name}.py")


def test_there_are_no_others():
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("byol_*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_builds_and_takes_one_step_on_its_own_views(name):
    cfg = load(name)
    model, data = model_and_batch(cfg, 2)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    assert wrapper.get_lr()["lr"] == [cfg.base_lr]
    model.on_training_length(100)
    with torch.no_grad():
        loss = model(**data, mode="loss")["loss_prediction"]
    assert 0 < loss < 8


@pytest.mark.parametrize("name", NAMES)
def test_rate_rises_in_the_warm_up_and_falls_to_zero(name):
    cfg = load(name)
    steps = 5
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=cfg.base_lr)
    schedulers = []
    for scheduler in cfg.param_scheduler:
        settings = {k: v for k, v in scheduler.items() if k != "convert_to_iter_based"}
        kind = PARAM_SCHEDULERS.get(settings.pop("type"))
        schedulers.append(
            kind.build_iter_from_epoch(optimizer=optimizer, epoch_length=steps, **settings)
        )
    rates = []
    for _ in range(cfg.max_epochs * steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    warm_up = cfg.warmup_epochs * steps
    assert rates[0] <= 0.01 * cfg.base_lr
    assert max(rates) == rates[warm_up] == pytest.approx(cfg.base_lr)
    assert rates[: warm_up + 1] == sorted(rates[: warm_up + 1])
    assert rates[warm_up:] == sorted(rates[warm_up:], reverse=True)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", [COCO, IMAGENET])
def test_published_views_and_heads(name):
    cfg = load(name)
    assert (cfg.layout.image_px, cfg.layout.image_area) == (224, (0.08, 1.0))
    assert (cfg.layout.levels, cfg.layout.num_small) == ([], 0)
    assert dict(cfg.model.data_preprocessor) == {
        "type": "PyramidPreprocessor",
        "flip_prob": 0.5,
        "brightness": 0.4,
        "contrast": 0.4,
        "saturation": 0.2,
        "hue": 0.1,
        "jitter_prob": 0.8,
        "grayscale_prob": 0.2,
        "blur_prob": (1.0, 0.1),
        "blur_sigma": (0.1, 2.0),
        "solarize_prob": (0.0, 0.2),
    }
    assert dict(cfg.model.backbone) == {"type": "ResNet", "depth": 50, "zero_init_residual": False}
    assert dict(cfg.model.neck) == {"in_channels": 2048, "hid_channels": 4096, "out_channels": 256}
    assert cfg.model.base_momentum == 0.99
    assert cfg.sync_bn == "torch"


def test_published_optimisers():
    coco, imagenet = load(COCO), load(IMAGENET)
    assert dict(coco.optim_wrapper.optimizer) == {
        "type": "SGD",
        "lr": pytest.approx(0.1),
        "momentum": 0.9,
        "weight_decay": 1e-4,
    }
    assert (coco.max_epochs, coco.warmup_epochs, coco.auto_scale_lr.base_batch_size) == (
        (200, 4, 128)
    )
    with DefaultScope.overwrite_default_scope("mmssprl"):
        wrapper = build_optim_wrapper(torch.nn.Linear(2, 2), imagenet.optim_wrapper)
    assert isinstance(wrapper.optimizer, LARC)
    assert wrapper.optimizer.defaults == {
        "lr": pytest.approx(0.45),
        "momentum": 0.9,
        "weight_decay": 1e-6,
        "trust_coefficient": 0.001,
        "eps": 1e-8,
        "exclude_bias_and_norm": True,
    }
    assert (imagenet.max_epochs, imagenet.warmup_epochs) == (100, 10)
    assert imagenet.auto_scale_lr.base_batch_size == 256


@pytest.mark.parametrize("data", SIZES)
def test_small_recipe_shares_data_network_and_photometrics_with_ssprl(data):
    ours = load(f"byol_resnet18_{data}")
    base = Config.fromfile(FOLDER.parent / "ssprl" / f"ssprl_resnet18_{data}.py")
    assert ours.model.data_preprocessor == base.model.data_preprocessor
    assert ours.model.backbone == base.model.backbone
    assert ours.train_dataloader.dataset.data_root == base.train_dataloader.dataset.data_root
    assert ours.layout.image_px == base.layout.image_px
    assert (ours.layout.image_area, ours.layout.levels) == (base.layout.image_area, [])
    assert (ours.train_dataloader.batch_size, ours.max_epochs) == (64, base.max_epochs)
    lr = 5e-4 if data == "photos-gpu" else 1e-3
    assert dict(ours.optim_wrapper.optimizer) == {"type": "AdamW", "lr": lr, "weight_decay": 1e-4}
