import pytest
from helpers.pretraining.recipes import CPU, choose, head_of

from mmssprl.pretraining.methods import PRETRAINED, RecipeRow, find_method
from mmssprl.pretraining.plan import describe
from mmssprl.pyramid import ViewLayout

PAPER = find_method("ssprl", "paper").coco.model.layout.to_dict()


def test_a_recipe_is_told_in_lines_of_110_characters():
    recipe = choose(num_images=900, num_devices=1, on_gpu=False, accumulate=2, image_px=96)
    words = ["rate=" + "1" * 30, "b=2"] * 3
    recipe.rows["options"] = RecipeRow(", ".join(words), "as asked")
    lines = describe(recipe, "photos", {}).splitlines()
    assert max(map(len, lines)) <= 110
    text = " ".join(" ".join(lines).split())
    for name, (choice, reason) in recipe.rows.items():
        assert f" {name} {choice} {reason}" in text


@pytest.mark.parametrize("options", [{}, CPU, {**CPU, "epochs": 3, "lr": 0.1, "image_px": 64}])
@pytest.mark.parametrize("method", PRETRAINED)
def test_a_reason_has_at_most_12_words(method, options):
    rows = choose(method, **options).rows
    assert len(rows) >= 5
    assert max(len(row.reason.split()) for row in rows.values()) <= 12
    assert "128 px" in choose(method, short_side_px=128).rows["views"].reason


def test_the_image_scale_is_trained_unless_asked_otherwise():
    recipe = choose(method=None)
    assert (recipe.method.key, recipe.layout["levels"]) == ("swav-small", [])
    assert "method ssprl adds the pyramid" in recipe.rows["method"].reason
    assert find_method(None, "cells").key == "ssprl-cells"
    assert find_method("ssprl").variant == "small-sampled"


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
        (1_281_167, [3840, 4992, 4992]),  # K 3,000, ten times COCO's
    ],
)
def test_queues_grow_with_prototypes_up_to_the_published_lengths(num_images, rows):
    assert queues_of(choose(num_images=num_images, num_devices=1)) == rows


def test_sampled_patches_have_the_published_queues():
    levels = [{**level, "num_sampled": n} for level, n in zip(PAPER["levels"], (2, 3), strict=True)]
    recipe = choose(layout={**PAPER, "levels": levels})
    assert recipe.layout["levels"] == levels
    assert queues_of(recipe) == queues_of(choose())
    assert recipe.rows["views"].choice == "2 x 224 px, 2 x 2 of 4 x 112 px, 2 x 3 of 9 x 96 px"
    scaled = choose(layout={**PAPER, "levels": levels}, on_gpu=False, num_devices=1)
    assert [level["num_sampled"] for level in scaled.layout["levels"]] == [2, 3]


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


def test_small_runs_use_adamw():
    recipe = choose(num_images=2000, epochs=20, num_devices=1)
    assert recipe.optimizer["type"] == "AdamW"
    assert "14.9 M" in recipe.rows["optimizer"].reason
    assert recipe.optimizer["lr"] == 3e-3
    assert head_of(recipe)["epsilon"] == 0.02
    assert recipe.values["model.data_preprocessor.brightness"] == 0.4


def test_cpu_and_small_images_get_smaller_views():
    on_cpu = ViewLayout.build(choose(on_gpu=False, num_devices=1).layout)
    assert on_cpu.image_px == 112
    assert [level.patch_px for level in on_cpu.levels] == [64, 48]
    small = ViewLayout.build(choose(short_side_px=128).layout)
    assert small == on_cpu


def test_prototypes_epochs_and_batch_have_bounds():
    tiny, huge = choose(num_images=100, num_devices=1), choose(num_images=2_000_000)
    names = ("num_prototypes", "num_patch_prototypes")
    assert [*(head_of(tiny)[name] for name in names), tiny.epochs] == [30, 30, 800]
    assert [*(head_of(huge)[name] for name in names), huge.epochs] == [3000, 1500, 100]
    assert tiny.batch_size == 8  # 100 images: at least 8 steps an epoch
    assert choose(batch_size=48, epochs=3).batch_size == 48
    # Fewer embeddings than prototypes are told.
    [warning] = choose(num_images=20, num_devices=1).warnings
    assert "10 embeddings" in warning
    assert "K = 30" in warning


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, but got 0"),
        ({"accumulate": 0}, "accumulate must be at least 1, but got 0"),
        ({"seed": -1}, "seed must be from 0 to 4294967295, but got -1"),
        ({"num_images": 100, "batch_size": 64}, "batch_size from 2 to 50"),
        ({"num_images": 100, "batch_size": 16, "accumulate": 4}, "16 4 times .* lower accumulate"),
        ({"num_images": 12, "accumulate": 100}, "2 devices; lower accumulate"),
        ({"num_images": 100, "batch_size": 1}, "2 images per device"),
    ],
)
def test_bad_input(kwargs, message):
    with pytest.raises(ValueError, match=message):
        choose(**kwargs)
