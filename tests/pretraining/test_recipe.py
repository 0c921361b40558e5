import re
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

import pytest
from helpers.pretraining.recipes import CPU, choose

from mmssprl.errors import UserValueError
from mmssprl.models.momentum_encoder import momentum_for
from mmssprl.pretraining.methods import PRETRAINED
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pyramid import ViewLayout

PUBLISHED = [key for key, method in PRETRAINED.items() if not method.learns_from_teacher]
PHOTOS = {"num_images": 4500, "short_side_px": 192, "num_devices": 1, "on_gpu": True, "epochs": 20}
IMAGENET = {"num_images": 1_281_167, "num_devices": 8, "batch_size": 32}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("data", ["coco", "imagenet"])
def test_the_data_of_a_publication_give_its_numbers_back(data, name):
    recipe = choose(name, **{"coco": {}, "imagenet": IMAGENET}[data])
    base = getattr(recipe.method, data)
    cfg, model = recipe.cfg, recipe.cfg.model
    assert model.layout == base.model.layout
    assert recipe.backbone.cfg == {"type": "ResNet", "depth": 50}
    assert recipe.step_images == base.auto_scale_lr.base_batch_size
    assert recipe.epochs == base.train_cfg.max_epochs
    assert cfg.optim_wrapper.optimizer == base.optim_wrapper.optimizer
    for ours, theirs in zip(cfg.param_scheduler, base.param_scheduler, strict=True):
        assert dict(theirs).items() <= dict(ours).items()
    for key in ("momentum", "base_momentum", "bn_groups", "dense_start_epoch"):
        assert model.get(key) == base.model.get(key)
    if "head" in base.model:
        head, levels = base.model.head, len(model.layout.levels)
        for key in ("num_prototypes", "num_patch_prototypes", "queue_length", "queue_start_epoch"):
            assert model.head.get(key) == head.get(key)
        assert model.head.patch_queue_length == [head.get("patch_queue_length")] * levels
        assert model.head.freeze_iters == head.freeze_epochs * recipe.steps_per_epoch > 0
        assert model.head.freeze_epochs == 0
    if "queue_length" in base.model:
        assert base.model.queue_length == 65_536
        assert model.queue_length == min(65_536, recipe.num_images // 2)


@pytest.mark.parametrize("batch_size", [32, 128])
@pytest.mark.parametrize(
    ("backbone", "num_images", "epochs", "optimizer", "prototypes"),
    [
        ("resnet50", 12_800, 1164, "AdamW", 60),  # 0.9 x 200 x 82,783 = 1,164.1 x 12,800
        ("resnet50", 12_800, 1165, "LARC", 50),
        ("resnet50", 118_000, 140, "LARC", 300),
        ("resnet50", 299_999, 100, "LARC", 300),
        ("resnet50", 300_000, 100, "LARC", 700),
        ("vit-small", 118_000, 140, "AdamW", 300),
    ],
)
def test_the_nearest_training_is_taken(
    backbone, num_images, epochs, optimizer, prototypes, batch_size
):
    cfg = choose(backbone=backbone, num_images=num_images, epochs=epochs, batch_size=batch_size).cfg
    found, head = cfg.optim_wrapper.optimizer, cfg.model.head
    assert (found.type, head.num_prototypes) == (optimizer, prototypes)
    assert head.epsilon == (0.02 if optimizer == "AdamW" else 0.05)
    if optimizer == "LARC":
        assert found.lr == pytest.approx(1.2 * batch_size / (128 if num_images < 300_000 else 256))
    else:
        assert found.lr == (2e-3 if backbone == "resnet50" else 1e-3)


def test_the_help_names_the_methods_that_refuse_accumulated_steps():
    [said] = [
        each.metadata["text"] for each in fields(PretrainOptions) if each.name == "accumulate"
    ]
    refused = [key for key, own in PRETRAINED.items() if not own.model_class.takes_num_chunks]
    assert f"Not for {', '.join(refused[:-1])} and {refused[-1]} (" in said


@pytest.mark.parametrize(("accumulate", "num_devices"), [(1, 4), (2, 2), (4, 1)])
def test_accumulated_steps_make_the_batch_of_more_devices(accumulate, num_devices):
    recipe = choose(accumulate=accumulate, num_devices=num_devices)
    cfg, head = recipe.cfg, recipe.cfg.model.head
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(0.6 * 256 / 128)
    assert (recipe.batch_size, cfg.model.get("num_chunks", 1)) == (64 * accumulate, accumulate)
    assert recipe.steps_per_epoch == head.freeze_iters == 323  # 82,783 // 256
    queues = [n * num_devices for n in (head.queue_length, *head.patch_queue_length)]
    assert queues == [1920, 4992, 4992]  # of all devices, as on COCO


@pytest.mark.parametrize("num_images", [128, 130, 256, 1024, 4096])
def test_no_queue_is_shorter_than_a_batch(num_images):
    epochs = 15_000_000 // num_images
    model = choose(num_images=num_images, epochs=epochs, batch_size=64, num_devices=1).cfg.model
    lengths = [model.head.queue_length, *model.head.patch_queue_length]
    patches = ViewLayout.build(model.layout).patches_per_scale
    assert all(n == 0 or n >= num * 64 for n, num in zip(lengths, patches, strict=True))


@pytest.mark.parametrize(
    ("num_devices", "epochs", "warmup"), [(4, 200, 0), (8, 200, 10), (8, 20, 4)]
)
def test_large_batches_are_warmed_up_for_at_most_a_fifth_of_the_epochs(num_devices, epochs, warmup):
    cfg = choose(num_images=2_000_000 // epochs * 20, num_devices=num_devices, epochs=epochs).cfg
    assert len(cfg.param_scheduler) == 1 + bool(warmup)
    assert cfg.param_scheduler[0]["end"] == (warmup or epochs)


@pytest.mark.parametrize(
    ("num_images", "prototypes", "epochs", "batch"),
    [(100, 30, 800, 8), (1200, 40, 800, 64), (4500, 60, 800, 64), (2_000_000, 3000, 100, 64)],
)
def test_the_numbers_of_a_recipe_have_bounds(num_images, prototypes, epochs, batch):
    recipe = choose(num_images=num_images, num_devices=1)
    found = (recipe.cfg.model.head.num_prototypes, recipe.epochs, recipe.batch_size)
    assert found == (prototypes, epochs, batch)


def test_momenta_fit_the_length_of_a_training():
    for published in (0.99, 0.999):
        longest = 1 / (1 - published)
        for steps in (50, 500, 5_000, 50_000, 500_000):
            momentum = momentum_for(steps, published)
            share = 1 / (1 - momentum) / steps
            assert 0.05 < share < 0.1 or (momentum == published and share < 0.1)
            assert momentum == published or steps * 0.07 < longest
    assert momentum_for(3, 0.99) == 0  # a copy


FEW, MANY = {**CPU, "num_images": 40}, {"num_images": 10**6}


@pytest.mark.parametrize(
    ("method", "options", "key", "value"),
    [
        # A queue starts early where a step has few rows. It is longer than a step, and no longer
        # than half of the data.
        ("ssprl", {"num_devices": 1}, "model.head.queue_start_epoch", 1),
        ("ssprl", {"num_devices": 2}, "model.head.queue_start_epoch", 80),
        ("ssprl", {"num_devices": 8}, "model.head.queue_start_epoch", 80),
        ("mocov2", {"batch_size": 16, **FEW}, "model.queue_length", 20),
        ("mocov2", {"batch_size": 32, **FEW}, "model.queue_length", 33),
        # Keys and queries are normalised apart.
        ("mocov2", {"batch_size": 64, **CPU}, "model.bn_groups", 4),  # of 16 images, as measured
        ("mocov2", {"batch_size": 6, **CPU}, "model.bn_groups", 2),  # of less, but two
        ("mocov2", {"batch_size": 7, **CPU}, "model.bn_groups", 1),  # MoCo.check_training warns
        ("mocov2", {"batch_size": 64, "num_devices": 1}, "model.bn_groups", 2),
        ("mocov2", {"batch_size": 32, "num_devices": 8, **MANY}, "model.bn_groups", 1),
        ("mocov2", {"batch_size": 32, "num_devices": 1, **MANY}, "model.bn_groups", 2),
        ("mocov2", {"batch_size": 256, "num_devices": 1, **MANY}, "model.bn_groups", 8),
        # Views follow the images and the device, and methods of maps the views.
        ("ssprl", PHOTOS, "layout.image_px", 160),  # 224 x 192 / 256, in steps of 16
        ("insloc", CPU, "layout.image_px", 128),
        ("detco", {}, "model.patch_px", 64),
        ("insloc", CPU, "model.neck.hid_channels", 256),
        ("mocov2", CPU, "model.neck.hid_channels", 2048),
    ],
)
def test_numbers_follow_the_size_of_the_training(method, options, key, value):
    assert attrgetter(key)(choose(method, **options).cfg) == value


def test_the_image_scale_is_trained_unless_asked_otherwise():
    recipe = choose(None)
    assert (recipe.method.key, recipe.cfg.layout.levels) == ("swav-small", [])
    assert "method ssprl adds the pyramid" in recipe.rows["method"].reason
    scaled = choose("ssprl-sampled", **CPU)
    assert scaled.rows["views"].choice == "2 x 112 px, 2 x 2 of 4 x 64 px, 2 x 3 of 9 x 48 px"


@pytest.mark.parametrize(("image_px", "box_px"), [(224, (64, 128)), (112, (32, 64))])
def test_regions_scale_with_the_views(image_px, box_px):
    cfg = choose("maskco", image_px=image_px).cfg
    assert cfg.train_dataloader.dataset.pipeline[0].box_px == box_px


def test_the_page_of_photographs_names_what_is_in_the_table():
    page = (Path(__file__).parents[2] / "docs/photographs.md").read_text()
    [table] = re.findall(r"## Methods\n\n\|.*\n\|-.*\n((?:\|.*\n)+)", page)
    named = ", ".join(re.findall(r"^\| (.*?) \|", table, re.M)).split(", ")
    assert sorted(named) == sorted(PRETRAINED)


OWN = "helpers.models.own_nets:vector"


@pytest.mark.parametrize(
    ("method", "backbone", "message"),
    [
        ("insloc", "convnext-tiny", "insloc needs a ResNet.* convnext-tiny"),
        ("maskco", "vit-small", "maskco needs a feature map.* vit-small does not"),
        ("densecl", OWN, "densecl needs a feature map, .*:vector does not"),
    ],
)
def test_a_backbone_that_does_not_fit_its_method_is_refused(method, backbone, message):
    with pytest.raises(UserValueError, match=message):
        choose(method, backbone=backbone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_images": 100, "batch_size": 64}, "at most all 100 .* 64 on 2 devices;"),
        ({"batch_size": 2**15, "accumulate": 2}, "batch_size 32768 x accumulate 2 on"),
        ({"batch_size": 1}, "needs 2 images per device .* batch_size 1 on 2"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(options, message):
    with pytest.raises(UserValueError, match=message):
        choose("ssprl", **options)
