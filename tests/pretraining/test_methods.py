import re
from pathlib import Path

import pytest
from helpers.pretraining.recipes import CPU, choose, head_of

from mmssprl.errors import UserValueError
from mmssprl.pretraining.methods import PRETRAINED
from mmssprl.pretraining.methods.method import momentum_for
from mmssprl.pretraining.recipe import schedule


def assert_published(recipe, base):
    assert recipe.step_images == base.auto_scale_lr.base_batch_size
    assert recipe.epochs == base.train_cfg.max_epochs
    assert recipe.optimizer == base.optim_wrapper.optimizer
    lr, decay = recipe.optimizer["lr"], recipe.method.lr_decay
    *before, cosine = base.param_scheduler
    found = schedule(lr, decay, recipe.epochs, recipe.warmup_epochs)
    assert found == [*before, {"eta_min": 0, **cosine}]
    for key in ("momentum", "base_momentum", "bn_groups", "dense_start_epoch"):
        if f"model.{key}" in recipe.values:
            assert recipe.values[f"model.{key}"] == base.model[key]
    if "head" in base.model:
        found = head_of(recipe)
        head, levels = base.model.head, len(recipe.layout["levels"])
        keys = ["num_prototypes", "queue_length", "queue_start_epoch", "epsilon"]
        for key in keys + ["num_patch_prototypes"] * (levels > 0):
            assert found[key] == head[key]
        assert found["patch_queue_length"] == [head.patch_queue_length] * levels
        assert found["freeze_iters"] == head.freeze_epochs * recipe.steps_per_epoch > 0
        assert found["freeze_epochs"] == 0
        for key in ("brightness", "contrast", "saturation", "hue"):
            jitter = recipe.values[f"model.data_preprocessor.{key}"]
            assert jitter == base.model.data_preprocessor[key]
    assert not recipe.warnings


@pytest.mark.parametrize("name", ["ssprl", "swav", "mocov2", "byol", "densecl", "insloc", "maskco"])
def test_coco_on_two_gpus_gives_the_published_numbers_back(name):
    recipe = choose(name)
    base = recipe.method.coco
    assert recipe.layout == base.model.layout
    assert recipe.backbone.cfg == {"type": "ResNet", "depth": 50}
    assert_published(recipe, base)
    if name in ("mocov2", "densecl", "maskco"):
        assert recipe.values["model.neck.hid_channels"] == base.model.neck.hid_channels
    if name in ("mocov2", "densecl", "insloc", "maskco"):
        assert recipe.values["model.queue_length"] == 82_783 // 2
        long_enough = choose(name, num_images=131_072).values
        assert long_enough["model.queue_length"] == base.model.queue_length == 65_536


@pytest.mark.parametrize("name", PRETRAINED)
def test_imagenet_on_eight_gpus_gives_the_published_numbers_back(name):
    recipe = choose(name, num_images=1_281_167, num_devices=8, batch_size=32)
    base = recipe.method.imagenet
    assert_published(recipe, base)
    if "model.queue_length" in recipe.values:
        assert recipe.values["model.queue_length"] == base.model.queue_length


def test_rates_and_the_momentum_of_byol_lie_between_those_of_both_trainings():
    def published(name, num_images):
        recipe = choose(name, num_images=num_images, num_devices=4)  # 256 images of an update
        return recipe.optimizer["type"], round(recipe.optimizer["lr"], 4)

    sizes = (82_783, 325_669, 1_281_167)  # the middle one is their geometric mean
    rates = [published("mocov2", size) for size in (40_000, *sizes, 5_000_000)]
    assert rates == [("SGD", lr) for lr in (0.3, 0.3, 0.0949, 0.03, 0.03)]
    assert published("swav", sizes[1]) == ("LARC", 0.8485)  # of 1.2 and 0.6
    # Two optimizers have no rate between theirs.
    byol = [published("byol", size) for size in (325_000, 326_000)]
    assert byol == [("SGD", 0.2), ("LARC", 0.45)]
    # And BYOL's target is slower in the longest trainings.
    for num_devices, momentum in ((1, 0.996), (8, 0.99)):  # 2.0 and 0.25 million updates
        recipe = choose("byol", num_images=1_281_167, num_devices=num_devices)
        assert recipe.values["model.base_momentum"] == momentum


def test_momenta_fit_the_length_of_a_training():
    for published in (0.99, 0.999):
        longest = 1 / (1 - published)
        for steps in (50, 500, 5_000, 50_000, 500_000):
            momentum, _ = momentum_for(steps, published)
            share = 1 / (1 - momentum) / steps
            assert 0.05 < share < 0.1 or (momentum == published and share < 0.1)
            assert momentum == published or steps * 0.07 < longest
    assert momentum_for(3, 0.99)[0] == 0  # a copy


def test_short_runs_on_a_cpu():
    moco, dense, byol = (choose(name, **CPU, epochs=20) for name in ("mocov2", "densecl", "byol"))
    # 1,200 images in batches of 32: 37 updates an epoch.
    momentum = pytest.approx(1 - 1 / (0.07 * 740), abs=1e-4)
    shared = {"model.queue_length": 600, "model.momentum": momentum, "model.bn_groups": 2}
    assert shared.items() <= moco.values.items()
    assert shared.items() <= dense.values.items()
    assert byol.values == {"model.base_momentum": momentum}
    rates = [recipe.optimizer["lr"] for recipe in (moco, dense, byol)]
    assert rates == [2.5e-4, 1e-3, 1e-3]  # of half of 64 images
    assert {recipe.warmup_epochs for recipe in (moco, dense, byol)} == {1}
    assert dense.values["model.dense_start_epoch"] == 1
    assert choose("byol", **CPU, epochs=4).warmup_epochs == 0


@pytest.mark.parametrize(
    ("batch_size", "num_devices", "on_gpu", "groups"),
    [
        (64, 1, False, 4),
        (16, 1, False, 2),  # of less than 16, but two
        (9, 1, False, 3),
        (64, 1, True, 2),
        (32, 2, True, 1),  # one on each device
        (256, 8, True, 8),
    ],
)
def test_keys_and_queries_are_normalised_apart(batch_size, num_devices, on_gpu, groups):
    options = {"batch_size": batch_size, "num_devices": num_devices, "on_gpu": on_gpu}
    recipe = choose("mocov2", num_images=100_000, **options)
    assert recipe.values["model.bn_groups"] == groups
    assert f"of {batch_size // groups} images" in recipe.rows["BatchNorm"].reason
    assert not recipe.warnings


def test_batches_that_no_groups_divide_are_told():
    recipe = choose("mocov2", **CPU, batch_size=7)
    assert recipe.values["model.bn_groups"] == 1
    assert "batch of 7" in recipe.rows["BatchNorm"].reason
    assert not recipe.warnings  # MoCo.check_training warns, and once is enough
    transformer = choose("mocov2", **CPU, batch_size=7, backbone="swin-tiny")
    assert transformer.rows["BatchNorm"].reason == "the network has no BatchNorm"
    assert not transformer.warnings


def test_queues_are_longer_than_a_step_and_no_longer_than_the_data():
    data = {**CPU, "num_images": 40}
    half = choose("mocov2", **data, batch_size=16)
    assert (half.values["model.queue_length"], half.warnings) == (20, [])
    more = choose("mocov2", **data, batch_size=32)
    assert more.values["model.queue_length"] == 33
    assert "with 33 " in more.warnings[0]
    with pytest.raises(UserValueError, match="mocov2 needs a queue .* batch_size"):
        choose("mocov2", **data, batch_size=40)


def test_densecl_is_warned_of_few_cells():
    few = choose("densecl", **{**CPU, "short_side_px": 96})
    assert "2 x 2 cells" in few.warnings[0]


def test_insloc_wants_stages_and_keeps_its_head():
    with pytest.raises(UserValueError, match="insloc needs a ResNet.* convnext-tiny"):
        choose("insloc", backbone="convnext-tiny")
    recipe = choose("insloc", **CPU)
    assert "model.neck.hid_channels" not in recipe.values
    assert recipe.values["model.queue_length"] == 600  # half of the images, of each level
    assert recipe.rows["negatives"].choice == "4 x 600 keys, of each level"
    assert recipe.layout["image_px"] == 128


def test_regions_of_maskco_have_the_views_proportions():
    with pytest.raises(UserValueError, match="maskco needs .* map, .* vit-small gives one pooled"):
        choose("maskco", backbone="vit-small")
    box_px = "train_dataloader.dataset.pipeline.0.box_px"
    assert choose("maskco").values[box_px] == (64, 128)
    assert choose("maskco", **CPU).values[box_px] == (32, 64)  # of 112 px
    few = choose("maskco", **{**CPU, "short_side_px": 96})
    assert "2 x 2 cells, which leaves MaskCo" in few.warnings[0]


def test_swav_with_and_without_small_views():
    plain, small = choose("swav"), choose("swav-small")
    assert (plain.layout["num_small"], small.layout["num_small"]) == (0, 6)
    assert plain.layout["levels"] == small.layout["levels"] == []
    assert small.rows["views"].choice == "2 x 224 px, 6 x 96 px"
    ssprl = choose().values
    assert plain.values == {**ssprl, "model.head.patch_queue_length": []}
    assert plain.rows["prototypes"].choice == "300"


def test_the_readme_names_what_is_in_the_table():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    [named] = re.findall(r"`--method` ([\w, -]+);", readme)
    assert sorted(named.split(", ")) == sorted(PRETRAINED)
