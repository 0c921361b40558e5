import pytest
from mmengine.config import Config
from recipes import choose

from mmssprl.config.shipped import shipped
from mmssprl.pretraining.methods import RecipeRow
from mmssprl.pretraining.recipe import describe
from mmssprl.pyramid import ViewLayout

PAPER = Config.fromfile(shipped("configs/_base_/ssprl_resnet50.py")).layout.to_dict()


def test_a_recipe_is_told_in_lines_of_110_characters():
    recipe = choose(num_images=900, num_devices=1, on_gpu=False, accumulate=2, image_px=96)
    words = ["rate=" + "1" * 30, "b=2"] * 3
    recipe.rows["set"] = RecipeRow(", ".join(words), "as asked")
    lines = describe(recipe, "photos", {}).splitlines()
    assert max(map(len, lines)) <= 110
    text = " ".join(" ".join(lines).split())
    for name, (choice, reason) in recipe.rows.items():
        assert f" {name} {choice} {reason}" in text
    views, more = lines[2:4]
    assert views.index("the paper's sizes") == more.index(more.split()[0]) < 60


def head_of(recipe):
    """What the recipe puts into the head's config."""
    name = "model.head."
    return {k.removeprefix(name): v for k, v in recipe.values.items() if k.startswith(name)}


def test_coco_on_two_gpus_gives_the_released_recipe_back():
    recipe = choose()
    coco = Config.fromfile(shipped("configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py"))
    head = coco.model.head
    assert recipe.layout == PAPER
    assert recipe.backbone.cfg == {"type": "ResNet", "depth": 50}
    assert recipe.batch_size == coco.train_dataloader.batch_size
    assert recipe.epochs == coco.train_cfg.max_epochs
    assert recipe.optimizer == coco.optim_wrapper.optimizer
    assert recipe.optimizer["lr"] / recipe.method.lr_decay == coco.param_scheduler[0].eta_min
    title = "SS-PRL (paper), resnet50, images of photos\n82,783 images\n"
    assert describe(recipe, "photos", {}).startswith(title)
    assert head.variant == "paper"
    assert head_of(recipe) == {
        **{name: head[name] for name in ("epsilon", "num_prototypes", "num_patch_prototypes")},
        "queue_length": head.queue_length,
        "patch_queue_length": [head.patch_queue_length] * 2,
        "queue_start_epoch": head.queue_start_epoch,
        "freeze_epochs": 0,
        "freeze_iters": head.freeze_epochs * recipe.steps_per_epoch,
    }
    assert recipe.values["model.head.freeze_iters"] == 646
    for name in ("brightness", "contrast", "saturation", "hue"):
        key = f"model.data_preprocessor.{name}"
        assert recipe.values[key] == coco.model.data_preprocessor[name]
    assert not recipe.warnings


@pytest.mark.parametrize(("accumulate", "num_devices"), [(1, 4), (2, 2), (4, 1)])
def test_accumulation_and_devices_make_one_batch(accumulate, num_devices):
    recipe = choose(accumulate=accumulate, num_devices=num_devices)
    assert recipe.optimizer["lr"] == pytest.approx(0.6 * 256 / 128)
    assert (recipe.batch_size, recipe.num_chunks) == (64 * accumulate, accumulate)
    assert recipe.steps_per_epoch == 323  # 82,783 // 256
    assert head_of(recipe)["freeze_iters"] == 323
    assert queues_of(recipe) == [1920, 4992, 4992]  # of all devices, as on COCO


def queues_of(recipe):
    """Rows of each scale's queue over all devices."""
    head = head_of(recipe)
    return [n * recipe.num_devices for n in (head["queue_length"], *head["patch_queue_length"])]


@pytest.mark.parametrize(
    ("num_images", "rows"),
    [
        (41_000, [960, 2496, 2496]),  # K of COCO / 2
        (124_000, [2880, 4992, 4992]),  # K of COCO x 3 / 2
        (250_000, [3840, 4992, 4992]),
        (1_281_167, [3840, 4992, 4992]),  # K 3,000, ten times COCO's
    ],
)
def test_queues_grow_with_prototypes_up_to_the_published_lengths(num_images, rows):
    recipe = choose(num_images=num_images, num_devices=1)
    assert queues_of(recipe) == rows
    assert "at most the published 3840 / 4992 / 4992 and" in recipe.rows["queues"].reason


def test_sampled_patches_have_the_published_queues():
    levels = [{**level, "num_sampled": n} for level, n in zip(PAPER["levels"], (2, 3), strict=True)]
    recipe = choose(layout={**PAPER, "levels": levels})
    assert recipe.layout["levels"] == levels
    assert queues_of(recipe) == queues_of(choose())
    text = describe(recipe, "", {})
    assert "views      2 x 224 px, 2 x 2 of 4 x 112 px, 2 x 3 of 9 x 96 px" in text
    assert recipe.rows["views"].reason.endswith("this package's own and not the paper's")
    scaled = choose(layout={**PAPER, "levels": levels}, on_gpu=False, num_devices=1)
    assert [level["num_sampled"] for level in scaled.layout["levels"]] == [2, 3]


def test_few_images_are_queued_by_what_is_cut_of_them():
    levels = [{**PAPER["levels"][0], "num_sampled": 1}]
    recipe = choose(layout={**PAPER, "levels": levels}, num_images=200, num_devices=1, on_gpu=False)
    assert head_of(recipe)["patch_queue_length"] == [
        200 // 2 - 16
    ]  # half of an epoch's patches - a step's


def test_accumulation_is_explained():
    assert choose(accumulate=4).rows["batch"].reason.endswith("8 steps an epoch, times 4 as asked")
    assert choose(accumulate=2, batch_size=16).rows["batch"].reason == "as asked, times 2 as asked"


@pytest.mark.parametrize("batch_size", [32, 128])
@pytest.mark.parametrize(("epochs", "optimizer"), [(1164, "AdamW"), (1165, "LARC")])
def test_larc_is_chosen_for_runs_as_long_as_the_published_one(batch_size, epochs, optimizer):
    # 0.9 x 200 x 82,783 = 1,164.1 x 12,800: with any batch, since the rate follows it.
    recipe = choose(num_images=12_800, num_devices=1, batch_size=batch_size, epochs=epochs)
    assert recipe.optimizer["type"] == optimizer


@pytest.mark.parametrize(("step_images", "epochs"), [(256, 0), (512, 10)])
def test_large_batches_are_warmed_up(step_images, epochs):
    recipe = choose(num_devices=step_images // 64)
    assert recipe.warmup_epochs == epochs
    assert recipe.optimizer["lr"] == pytest.approx(0.6 * step_images / 128)


@pytest.mark.parametrize("num_images", [100, 300, 800, 2000])
def test_folders_where_larc_stays_at_ln_k_use_adamw(num_images):
    recipe = choose(num_images=num_images, short_side_px=96, num_devices=1, on_gpu=False)
    assert recipe.epochs == 800
    assert recipe.optimizer["type"] == "AdamW"


def test_small_runs_use_adamw():
    recipe = choose(num_images=2000, epochs=20, num_devices=1)
    assert recipe.optimizer["type"] == "AdamW"
    assert recipe.rows["optimizer"].reason.startswith(
        "0.0397 M images seen, LARC needs 14.9 M (90% of its COCO training); 0.003 x"
    )
    assert recipe.optimizer["lr"] == 3e-3
    assert head_of(recipe)["epsilon"] == 0.02
    assert recipe.values["model.data_preprocessor.brightness"] == 0.4
    assert choose(backbone="swin-tiny").optimizer["type"] == "AdamW"


def test_cpu_and_small_images_get_smaller_views():
    on_cpu = ViewLayout.build(choose(on_gpu=False, num_devices=1).layout)
    assert on_cpu.image_px == 112
    assert [level.patch_px for level in on_cpu.levels] == [64, 48]
    small = ViewLayout.build(choose(short_side_px=128).layout)
    assert small == on_cpu


def test_released_variant_has_small_views():
    assert choose(variant="released").layout["num_small"] == 6


def test_prototypes_epochs_and_batch_have_bounds():
    tiny, huge = choose(num_images=100, num_devices=1), choose(num_images=2_000_000)
    names = ("num_prototypes", "num_patch_prototypes")
    assert [*(head_of(tiny)[name] for name in names), tiny.epochs] == [30, 30, 800]
    assert [*(head_of(huge)[name] for name in names), huge.epochs] == [3000, 1500, 100]
    assert tiny.batch_size == 8  # 100 images: at least 8 steps an epoch
    assert choose(batch_size=48, epochs=3).batch_size == 48


def test_batch_and_queues_hold_at_most_half_the_data():
    recipe = choose(num_images=200, num_devices=1, on_gpu=False)
    assert recipe.batch_size == 16
    # 30 prototypes want a tenth of COCO's 2,048 rows, but there are 200 images of one view.
    assert head_of(recipe)["queue_length"] == 200 // 2 - 16


def test_warns_when_batch_and_queue_are_fewer_than_prototypes():
    recipe = choose(num_images=20, num_devices=1)
    assert len(recipe.warnings) == 1
    assert "batch + queue = 10 embeddings are assigned to K = 30" in recipe.warnings[0]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epochs": 0}, "epochs must be >= 1, but got 0"),
        ({"accumulate": 0}, "accumulate must be >= 1, but got 0"),
        ({"num_images": 100, "batch_size": 64}, "choose a batch size from 2 to 50"),
        (
            {"num_images": 100, "batch_size": 16, "accumulate": 4},
            r"batch size 16 4 times on 2 .* from 2 to 12, lower --accumulate, use fewer devices",
        ),
        ({"num_images": 12, "accumulate": 100}, r"2 devices; lower --accumulate, use fewer"),
        ({"num_images": 100, "batch_size": 1}, "a step needs 2 images per device"),
    ],
)
def test_bad_input(kwargs, message):
    with pytest.raises(ValueError, match=message):
        choose(**kwargs)
