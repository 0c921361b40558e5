from dataclasses import replace

import pytest
import torch
from helpers.config.own_views import model_and_batch
from helpers.package.checkout import ROOT
from helpers.pretraining.recipes import choose
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from mmssprl.pyramid import PyramidLevel, ViewLayout

CONFIGS = sorted((ROOT / "configs" / "ssprl").glob("*.py"))
COCO = "ssprl_resnet50_2xb64-coslr-200e_coco"
IMAGENET = "ssprl_resnet50_8xb32-coslr-100e_in1k"


def load(stem):
    return Config.fromfile(ROOT / "configs" / "ssprl" / f"{stem}.py")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_builds_and_takes_one_step_on_its_own_views(path):
    assert len(CONFIGS) >= 9
    cfg = Config.fromfile(path)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        wrapper = build_optim_wrapper(torch.nn.Linear(2, 2), cfg.optim_wrapper)
    assert wrapper.get_lr()["lr"] == [cfg.base_lr]
    assert cfg.param_scheduler[0].T_max == cfg.train_cfg.max_epochs == cfg.max_epochs
    # One crop of each kind reaches the real backbone; the whole step is too slow for all configs.
    model, data = model_and_batch(cfg, 2)
    assert [tuple(x.shape) for x in data["inputs"]] == [
        (group.num_crops, 2, 3, group.px, group.px) for group in model.layout.groups
    ]
    with torch.no_grad():
        features = model.backbone(data["inputs"][-1][0])[-1].mean(dim=(2, 3))
    views = (model.layout.num_image_views, 2, 2)
    scales = [
        features.expand(num_views, num_patches, *features.shape)
        for num_views, num_patches in zip(views, model.layout.patches_per_scale, strict=False)
    ]
    model.head.set_epoch_length(10)
    losses = model.head.loss(model.neck(scales))
    assert all(torch.isfinite(loss) for loss in losses.values())
    num_levels = len(model.layout.levels)
    crosses = num_levels if cfg.model.head.get("with_cross", True) else 0
    pyramids = 1 + (num_levels if cfg.model.head.get("with_pyramid", True) else 0)
    assert len(losses) == pyramids + crosses


def test_released_recipe_on_coco():
    """Section 3 of the method's notes: every published number of the recipe."""
    cfg = load(f"ssprl-released_{COCO.removeprefix('ssprl_')}")
    layout = ViewLayout.build(cfg.model.layout)
    assert (layout.image_px, layout.image_area) == (224, (0.14, 1.0))
    assert (layout.num_small, layout.small_px, layout.small_area) == (6, 96, (0.05, 0.14))
    assert [level.cell_px for level in layout.levels] == [157, 127]
    area = (0.6, 1.0)
    assert layout.levels == (PyramidLevel(2, 314, 112, area), PyramidLevel(3, 383, 96, area))
    expected_head = {
        **{"variant": "released", "in_channels": 128, "freeze_epochs": 1},
        **{"num_prototypes": 300, "num_patch_prototypes": 150},
        **{"temperature": 0.1, "epsilon": 0.05, "num_iters": 3},
        **{"alpha": 0.25, "beta": 0.25, "cross_weight": 1.0},
        # Rows over all ranks, on two of them.
        **{"queue_length": 1920 // 2, "patch_queue_length": 4992 // 2, "queue_start_epoch": 80},
    }
    assert expected_head.items() <= dict(cfg.model.head).items()
    assert (cfg.model.neck.hid_channels, cfg.model.neck.out_channels) == (2048, 128)
    larc = {"type": "LARC", "momentum": 0.9, "trust_coefficient": 0.001}
    assert cfg.optim_wrapper.optimizer == {**larc, "lr": 0.6, "weight_decay": 1e-6}
    assert cfg.param_scheduler[0].eta_min == pytest.approx(0.0006)
    assert (cfg.max_epochs, cfg.train_dataloader.batch_size) == (200, 64)
    assert cfg.model.data_preprocessor == {
        "type": "PyramidPreprocessor",
        **{"flip_prob": 0.5, "jitter_prob": 0.8, "grayscale_prob": 0.2, "blur_prob": 0.5},
        **{"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2},
        "blur_sigma": (0.1, 2.0),
        "std": pytest.approx((0.228 * 255, 0.224 * 255, 0.225 * 255)),
    }


FORMS = {
    "small-views": ({}, 6, (None, None)),
    "sampled": ({}, 0, (2, 3)),
    "small-views-sampled": ({}, 6, (2, 3)),
    "released": ({"variant": "released"}, 6, (None, None)),
    "pyramid-only": ({"with_cross": False}, 0, (None, None)),
    "cross-only": ({"with_pyramid": False}, 0, (None, None)),
    "shared-prototypes": ({"share_prototypes": True}, 0, (None, None)),
}
"""Fields of the head, small views and sampled patches of each form."""
COCO_SIZE = COCO.removeprefix("ssprl_")
SIZES = ["resnet18_scenes", "resnet18_photos", "resnet18_photos-gpu", COCO_SIZE]


@pytest.mark.parametrize(
    ("size", "name"),
    [(size, n) for size in SIZES for n in FORMS if (size, n) != (COCO_SIZE, "sampled")],
)
def test_forms_differ_in_what_they_are_named_for(size, name):
    head, num_small, num_sampled = FORMS[name]
    paper, form = load(f"ssprl_{size}"), load(f"ssprl-{name}_{size}")
    layout = ViewLayout.build(paper.layout)
    levels = [
        replace(level, num_sampled=n) for level, n in zip(layout.levels, num_sampled, strict=True)
    ]
    assert ViewLayout.build(form.layout) == replace(layout, num_small=num_small, levels=levels)
    expected = paper.to_dict()
    expected["layout"] = expected["model"]["layout"] = form.to_dict()["layout"]
    expected["model"]["head"] |= head
    if name == "released" and size == COCO_SIZE:
        expected["model"]["data_preprocessor"]["std"] = (58.14, 57.12, 57.375)  # red 0.228 * 255
    assert form.to_dict() == expected


def test_small_views_with_sampled_patches_are_what_pretrain_chooses_on_coco():
    config, recipe = load(f"ssprl-small-views-sampled_{COCO_SIZE}"), choose(variant="small-sampled")
    assert recipe.layout == config.layout
    queues = recipe.values["model.head.patch_queue_length"]
    assert queues == [config.model.head.patch_queue_length] * 2


def test_imagenet_recipe():
    cfg = load(IMAGENET)
    assert cfg.train_dataloader.batch_size * 8 == 256
    assert cfg.model.head.queue_length * 8 == 3840
    assert cfg.model.head.patch_queue_length * 8 == 4992
    assert (cfg.model.head.num_prototypes, cfg.model.head.queue_start_epoch) == (3000, 15)
    assert (cfg.train_cfg.max_epochs, cfg.param_scheduler[0].T_max) == (100, 100)


def test_released_form_on_imagenet_is_its_recipe_with_what_is_released_for_coco():
    coco, released = (load(s.replace("_", "-released_", 1)).to_dict() for s in (COCO, IMAGENET))
    expected = load(IMAGENET).to_dict()
    expected["layout"] = expected["model"]["layout"] = coco["layout"]
    expected["model"]["data_preprocessor"] = coco["model"]["data_preprocessor"]
    expected["model"]["head"]["variant"] = "released"
    assert released == expected


@pytest.mark.parametrize(
    ("scale", "num_gpus", "batch", "epochs", "num_prototypes", "queue", "start"),
    [
        ("2xb64-coslr-200e_coco", 2, 128, 200, 300, 1920, 80),
        ("8xb32-coslr-100e_in1k", 8, 256, 100, 3000, 3840, 15),
    ],
)
@pytest.mark.parametrize(("form", "num_small"), [("", 0), ("-small-views", 6)])
def test_swav_recipes(
    form, num_small, scale, num_gpus, batch, epochs, num_prototypes, queue, start
):
    cfg = load(f"ssprl-image-only{form}_resnet50_{scale}")
    layout = ViewLayout.build(cfg.model.layout)
    assert (layout.levels, layout.image_px, layout.image_area) == ((), 224, (0.14, 1.0))
    assert (layout.num_small, layout.small_px, layout.small_area) == (num_small, 96, (0.05, 0.14))
    assert cfg.train_dataloader.batch_size * num_gpus == batch
    assert (cfg.train_cfg.max_epochs, cfg.param_scheduler[0].T_max) == (epochs, epochs)
    assert (cfg.optim_wrapper.optimizer.lr, cfg.optim_wrapper.optimizer.type) == (0.6, "LARC")
    assert cfg.param_scheduler[0].eta_min == pytest.approx(0.0006)
    head = cfg.model.head
    assert (head.num_prototypes, head.queue_length * num_gpus) == (num_prototypes, queue)
    assert (head.queue_start_epoch, head.freeze_epochs) == (start, 1)
