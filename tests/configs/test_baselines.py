import pytest
import torch
from helpers.config.pretrain_configs import COCO, load
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from mmssprl.config.shipped import SIZES
from mmssprl.pretraining.methods import PRETRAINED

pytestmark = pytest.mark.fence

METHODS = [key for key, method in PRETRAINED.items() if method.coco.model.type != "SSPRL"]
LARGER = {("insloc", "resnet18_scenes"): 64}
LARGER |= {("maskco", f"resnet18_{size}"): 96 for size in ("scenes", "photos")}
LARGER |= {("maskco", "resnet18_photos-gpu"): 192}
"""Sides of views that differ from SS-PRL's."""
IMAGENET = "resnet50_8xb32-coslr-100e_in1k"
SMALL = [f"resnet18_{size}" for size in SIZES]
AUGMENTATION = {
    **{"type": "PyramidPreprocessor", "flip_prob": 0.5, "jitter_prob": 0.8, "grayscale_prob": 0.2},
    **{"brightness": 0.4, "contrast": 0.4, "hue": 0.1, "blur_sigma": (0.1, 2.0)},
}
"""What the papers have in common."""


def test_the_short_queue_changes_nothing_else():
    short = load(f"mocov2-k4096_{COCO}")
    base = load(f"mocov2_{COCO}")
    assert (short.model.queue_length, short.model.momentum) == (4096, 0.995)
    base.merge_from_dict({"model": {"queue_length": 4096, "momentum": 0.995}})
    assert short.to_dict() == base.to_dict()


@pytest.mark.parametrize("method", ["mocov2", "densecl", "detco", "byol"])
@pytest.mark.parametrize("data", [COCO, IMAGENET])
def test_published_settings(method, data):
    cfg = load(f"{method}_{data}")
    neck = {"in_channels": 2048, "hid_channels": 2048, "out_channels": 128}
    optimizer = {"lr": 0.15 if data == COCO else 0.03, "momentum": 0.9, "weight_decay": 1e-4}

    if method == "byol":
        least_area = 0.08
        sync_bn = "torch"
        views = {"saturation": 0.2, "blur_prob": (1.0, 0.1), "solarize_prob": (0.0, 0.2)}
        neck |= {"hid_channels": 4096, "out_channels": 256}
        assert (cfg.layout.levels, cfg.layout.num_small) == ([], 0)
        assert cfg.model.base_momentum == 0.99
        assert cfg.warmup_epochs == (4 if data == COCO else 10)
        optimizer["lr"] = 0.1 if data == COCO else 0.45
        if data == IMAGENET:
            optimizer |= {"weight_decay": 1e-6, "trust_coefficient": 0.001, "eps": 1e-8}
            optimizer |= {"exclude_bias_and_norm": True}
    else:
        least_area = 0.2
        sync_bn = None
        views = {"saturation": 0.4, "blur_prob": 0.5}
        settings = (cfg.model.queue_length, cfg.model.momentum, cfg.model.temperature)
        assert settings == (65536, 0.999, 0.2)
        optimizer |= {"nesterov": False, "dampening": 0}
        assert cfg.train_dataloader.batch_size / cfg.model.bn_groups == 32
    if method == "densecl":
        assert (cfg.model.loss_lambda, cfg.model.dense_start_epoch) == (0.5, 0)

    assert (cfg.layout.image_px, cfg.layout.image_area) == (224, (least_area, 1.0))
    assert dict(cfg.model.data_preprocessor) == {**AUGMENTATION, **views}
    assert dict(cfg.model.backbone) == {"type": "ResNet", "depth": 50, "zero_init_residual": False}
    assert (dict(cfg.model.neck), cfg.sync_bn) == (neck, sync_bn)
    epochs, images = (200, 128) if data == COCO else (100, 256)
    assert (cfg.train_cfg.max_epochs, cfg.auto_scale_lr.base_batch_size) == (epochs, images)
    assert cfg.train_dataloader.batch_size * cfg.num_gpus == images

    with DefaultScope.overwrite_default_scope("mmssprl"):
        built = build_optim_wrapper(torch.nn.Linear(2, 2), cfg.optim_wrapper).optimizer
    assert type(built).__name__ == ("LARC" if "eps" in optimizer else "SGD")
    assert {name: built.defaults[name] for name in optimizer} == pytest.approx(optimizer)


@pytest.mark.parametrize("data", [COCO, IMAGENET])
@pytest.mark.parametrize("method", ["insloc", "maskco"])
def test_published_settings_that_differ_from_mocos(method, data):
    ours = load(f"{method}_{data}")
    moco = load(f"mocov2_{data}")
    crop = {"type": "RegionPairCrop", "box_px": (64, 128), "num_others": 3}
    own = {"type": "MaskCo", "mask_channels": 512}
    if method == "insloc":
        assert (ours.layout.image_px, ours.layout.image_area) == (256, (0.2, 1.0))
        neck = {"in_channels": 2048, "fpn_channels": 256, "num_convs": 4, "num_fcs": 2}
        neck |= {"hid_channels": 1024, "out_channels": 128, "sampling_ratio": -1}
        own = {"type": "InsLoc", "layout": ours.layout, "neck": neck}
        own["data_preprocessor"] = {**moco.model.data_preprocessor, "type": "PastePreprocessor"}
        crop = {"type": "PasteCrop"}
        if data == IMAGENET:
            assert ours.optim_wrapper.optimizer.pop("nesterov")
    assert ours.model == {**moco.model, **own}
    moco.train_dataloader.dataset.pipeline = [crop]
    for key in ("train_dataloader", "optim_wrapper", "param_scheduler", "train_cfg", "sync_bn"):
        assert ours[key] == moco[key]


RATES = {
    "mocov2": (2e-3, 2e-3 / 3, 1e-3 / 3),
    "byol": (1e-3, 3e-3, 1.5e-3),
    "densecl": (2e-3, 6e-3, 1e-3),
    "insloc": (3e-4, 3e-4, 1.5e-4),
}


@pytest.mark.parametrize("method", [key for key in METHODS if key != "distill"])
@pytest.mark.parametrize("data", SMALL)
def test_a_small_recipe_is_ssprls_but_for_the_methods_numbers(method, data):
    ours = load(f"{method}_{data}")
    base = load(f"ssprl_{data}")
    kind = {"type": "PastePreprocessor"} if method == "insloc" else {}
    assert ours.model.data_preprocessor == {**base.model.data_preprocessor, **kind}
    assert ours.model.backbone == base.model.backbone
    assert ours.train_dataloader.dataset.data_root == base.train_dataloader.dataset.data_root
    assert ours.layout.image_px == LARGER.get((method, data), base.layout.image_px)
    assert (ours.layout.image_area, ours.layout.levels) == (base.layout.image_area, [])
    assert (ours.train_dataloader.batch_size, ours.train_cfg) == (64, base.train_cfg)
    lr = RATES.get(method, (2e-3, 2e-3, 1e-3))[SMALL.index(data)]
    assert dict(ours.optim_wrapper.optimizer) == {"type": "AdamW", "lr": lr, "weight_decay": 1e-4}
    if method != "byol":
        momentum = 0.97 if data == SMALL[0] else 0.99
        assert (ours.model.queue_length, ours.model.bn_groups) == (512, 4)
        assert (ours.model.momentum, ours.model.temperature) == (momentum, 0.2)
    else:
        rise, cosine = ours.param_scheduler
        assert (rise.start_factor, rise.end, cosine.begin) == (0.01, 1, 1)
    if method == "densecl":
        assert (ours.model.loss_lambda, ours.model.dense_start_epoch) == (0.5, 1)
