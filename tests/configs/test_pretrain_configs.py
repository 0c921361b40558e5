from dataclasses import replace
from itertools import product

import pytest
import torch
from helpers.config.pretrain_configs import COCO, load
from helpers.package.checkout import ROOT
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from mmssprl.config import schedule_checks
from mmssprl.config.at_size import at_size
from mmssprl.config.layouts import hand_on_layout
from mmssprl.config.shipped import SIZES
from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import TeacherCrop
from mmssprl.pretraining.methods import PRETRAINED
from mmssprl.pyramid import PyramidLevel, ViewLayout
from mmssprl.registry import MODELS, TRANSFORMS

pytestmark = pytest.mark.fence

FILES = sorted(path.stem for path in (ROOT / "configs" / "ssprl").glob("ssprl*.py"))
FORMS = [
    stem.partition("_")[0] for stem in FILES if stem.endswith("_coco") and stem != f"ssprl_{COCO}"
]
SMALL = [f"{form}_resnet18_{size}" for form, size in product(FORMS, SIZES)]
CONFIGS = FILES + SMALL
RIVALS = [key for key, method in PRETRAINED.items() if method.coco.model.type != "SSPRL"]
OTHERS = [f"{key}_resnet18_{size}" for key, size in product(RIVALS, SIZES)]
for rival in RIVALS:
    OTHERS += sorted(path.stem for path in ROOT.glob(f"configs/*/{rival}*.py"))


@pytest.mark.parametrize("size", SIZES)
def test_the_small_form_of_the_method_itself_is_its_file(size):
    made = load(f"ssprl_resnet18_{size}")
    file = Config.fromfile(ROOT / f"configs/ssprl/ssprl_resnet18_{size}.py")
    assert made.to_dict() == file.to_dict()
    assert made.filename == f"ssprl_resnet18_{size}.py"


def test_a_size_keeps_the_start_of_the_config():
    cfg = load(f"ssprl_{COCO}")
    assert "weights" not in at_size(cfg, "scenes")
    cfg.weights = "a.pth"
    cfg.randomness = {"seed": 3}
    small = at_size(cfg, "scenes")
    assert (small.weights, small.randomness.seed) == ("a.pth", 3)


@pytest.mark.parametrize("name", CONFIGS + OTHERS)
def test_takes_one_step_on_its_own_views(name, monkeypatch):
    assert len(FILES) >= 12
    cfg = load(name)
    model, data = model_and_batch(cfg, max(2, cfg.model.get("bn_groups") or 1))
    with DefaultScope.overwrite_default_scope("mmssprl"):
        wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    assert wrapper.get_lr()["lr"] == [cfg.optim_wrapper.optimizer.lr]
    assert cfg.env_cfg.mp_cfg.opencv_num_threads == 0  # or each worker would have all cores
    model.on_epoch_length(10)
    model.on_training_length(100)
    with torch.no_grad():
        losses = one_crop(model, data) if name in CONFIGS else model(**data, mode="loss")
    assert 0 < sum(losses.values()) < 80  # 6.6 terms of at most ln(1 + 65536) in DetCo
    num_images = {"scenes": 1200, "photos": 4500, "photos-gpu": 4500}.get(name.rsplit("_")[-1])
    model.check_training(num_images or 82_783, cfg.train_dataloader.batch_size)
    warnings = []
    monkeypatch.setattr(schedule_checks, "print_log", lambda text, **_: warnings.append(text))
    schedule_checks.warn_of_schedule(cfg, (num_images or 82_783) // cfg.train_dataloader.batch_size)
    assert warnings == []


def model_and_batch(cfg, num_images):
    """Build both parts of a pre-training config; the batch is augmented, of random pixels."""
    hand_on_layout(cfg)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build(cfg.model)
        (crop,) = [TRANSFORMS.build(step) for step in cfg.train_dataloader.dataset.pipeline]
    assert crop.layout == model.layout == ViewLayout.build(cfg.layout)
    if isinstance(crop, TeacherCrop):
        crop.take_maps(None, 49, model.teacher_head.size)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (num_images, 3, 60, 80), generator=generator).byte()
    samples = [
        crop({"img": image, "crop_seed": (i,), "sample_idx": i}) for i, image in enumerate(images)
    ]
    return model, model.data_preprocessor(stack_views(samples), training=True)


def one_crop(model, data):
    """One crop of each kind reaches the backbone; the whole step is too slow for all configs."""
    layout = model.layout
    head = model.head
    assert [tuple(x.shape) for x in data["inputs"]] == [
        (group.num_crops, 2, 3, group.px, group.px) for group in layout.groups
    ]
    features = model.backbone(data["inputs"][-1][0])[-1].mean(dim=(2, 3))
    counts = zip(layout.views_per_scale, layout.patches_per_scale, strict=False)
    losses = head.loss(model.neck([features.expand(*num, *features.shape) for num in counts]))
    num_levels = layout.num_scales - 1
    assert len(losses) == num_levels * head.with_cross + (1 + num_levels * head.with_pyramid)
    return losses


def test_released_recipe_on_coco():
    """Section 3 of the method's notes: every published number of the recipe."""
    cfg = load(f"ssprl-released_{COCO}")
    layout = ViewLayout.build(cfg.model.layout)
    assert (layout.image_px, layout.image_area) == (224, (0.14, 1.0))
    assert (layout.num_small, layout.small_px, layout.small_area) == (6, 96, (0.05, 0.14))
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


def test_released_schedule_on_coco():
    cfg = load(f"ssprl-released_{COCO}")
    larc = {"type": "LARC", "momentum": 0.9, "trust_coefficient": 0.001}
    assert cfg.optim_wrapper.optimizer == {**larc, "lr": 0.6, "weight_decay": 1e-6}
    assert cfg.param_scheduler[0].eta_min == pytest.approx(0.0006)
    assert (cfg.max_epochs, cfg.train_dataloader.batch_size) == (200, 64)


def test_released_augmentation_on_coco():
    cfg = load(f"ssprl-released_{COCO}")
    assert cfg.model.data_preprocessor == {
        "type": "PyramidPreprocessor",
        **{"flip_prob": 0.5, "jitter_prob": 0.8, "grayscale_prob": 0.2, "blur_prob": 0.5},
        **{"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2},
        "blur_sigma": (0.1, 2.0),
        "std": pytest.approx((0.228 * 255, 0.224 * 255, 0.225 * 255)),
    }


FIELDS = {
    "released": {"variant": "released"},
    "pyramid-only": {"with_cross": False},
    "cross-only": {"with_pyramid": False},
    "shared-prototypes": {"share_prototypes": True},
}
"""Fields of the head by the name of a form; other forms have other views."""


@pytest.mark.parametrize("stem", [stem for stem in CONFIGS if "-" in stem.split("_")[0]])
def test_forms_differ_in_what_they_are_named_for(stem):
    name, size = stem.removeprefix("ssprl-").split("_", 1)
    form = load(stem).to_dict()
    expected = load(f"ssprl_{size}").to_dict()
    layout = ViewLayout.build(expected["layout"])
    num_sampled = (2, 3) if "sampled" in name else (None, None)
    pairs = zip(layout.levels, num_sampled, strict=True)
    levels = [replace(level, num_sampled=n) for level, n in pairs if "image-only" not in name]
    num_small = 6 if "small-views" in name or name == "released" else 0
    layout = replace(layout, num_small=num_small, levels=levels)
    assert ViewLayout.build(form["layout"]) == layout
    expected["layout"] = expected["model"]["layout"] = form["layout"]
    expected["model"]["head"] |= FIELDS.get(name, {})
    if name == "released" and "resnet50" in size:
        expected["model"]["data_preprocessor"]["std"] = (0.228 * 255, 0.224 * 255, 0.225 * 255)
    if layout.num_scales == 1:  # which leaves numbers of patches without meaning
        for config in (form, expected):
            config.pop("num_prototypes", None)
            for field in ("num_patch_prototypes", "patch_queue_length"):
                config["model"]["head"].pop(field, None)
    assert form == expected


def test_imagenet_recipe():
    cfg = load("ssprl_resnet50_8xb32-coslr-100e_in1k")
    assert cfg.train_dataloader.batch_size * 8 == 256
    expected_head = {"queue_length": 3840 // 8, "patch_queue_length": 4992 // 8}
    expected_head |= {"num_prototypes": 3000, "queue_start_epoch": 15}
    assert expected_head.items() <= dict(cfg.model.head).items()
    assert (cfg.train_cfg.max_epochs, cfg.param_scheduler[0].T_max) == (100, 100)
    assert cfg.optim_wrapper == load(f"ssprl_{COCO}").optim_wrapper
    assert cfg.param_scheduler[0].eta_min == pytest.approx(0.0006)
