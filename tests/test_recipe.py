import pytest

from mmssprl.pyramid import ViewLayout
from mmssprl.recipe import BACKBONES, choose_recipe

PAPER = {
    "image_px": 224,
    "num_small": 0,
    "small_px": 96,
    "levels": [
        {"grid": 2, "resize_px": 314, "patch_px": 112},
        {"grid": 3, "resize_px": 383, "patch_px": 96},
    ],
}
COCO = {"num_images": 82_783, "short_side_px": 480, "num_devices": 2, "on_gpu": True}


def choose(**kwargs):
    return choose_recipe(**{"paper_layout": PAPER, **COCO, **kwargs})


def test_coco_on_two_gpus_gives_the_released_recipe_back():
    recipe = choose()
    assert recipe.layout == PAPER
    assert (recipe.batch_size, recipe.epochs) == (64, 200)
    assert recipe.optimizer == {
        "type": "LARC",
        "lr": 0.6,
        "momentum": 0.9,
        "weight_decay": 1e-6,
        "trust_coefficient": 0.001,
    }
    assert (recipe.epsilon, recipe.jitter) == (0.05, 0.8)
    assert (recipe.num_prototypes, recipe.num_patch_prototypes) == (300, 150)
    # Released: 1,920 and 5,000; here the nearest multiples of 64 x 1, 4 and 9 rows.
    assert recipe.queue_length == 1920
    assert recipe.patch_queue_length == [5120, 4608]
    assert recipe.queue_start_epoch == 80
    assert recipe.freeze_iters == recipe.steps_per_epoch == 646
    assert not recipe.warnings


@pytest.mark.parametrize(("accumulation", "num_devices"), [(1, 4), (2, 2), (4, 1)])
def test_accumulation_and_devices_make_one_batch(accumulation, num_devices):
    recipe = choose(accumulation=accumulation, num_devices=num_devices)
    assert recipe.optimizer["lr"] == pytest.approx(0.6 * 256 / 128)
    assert (recipe.batch_size, recipe.num_chunks) == (64 * accumulation, accumulation)
    assert recipe.steps_per_epoch == 323  # 82,783 // 256
    assert recipe.freeze_iters == 323
    # As many rows on all devices: (64 + 1920) x 2 of COCO, and the same for the patches.
    for length, patches, rows in zip(
        [recipe.queue_length, *recipe.patch_queue_length],
        (1, 4, 9),
        (3968, 10512, 10512),
        strict=True,
    ):
        step = recipe.batch_size * patches
        assert length % step == 0
        assert abs(num_devices * (length + step) - rows) <= num_devices * step / 2


def test_accumulation_is_explained():
    assert choose(accumulation=4).reasons["batch"].endswith("8 steps an epoch, times 4 as asked")
    assert choose(accumulation=2, batch_size=16).reasons["batch"] == "as asked, times 2 as asked"


def test_small_runs_use_adamw():
    recipe = choose(num_images=2000, epochs=20, num_devices=1)
    assert recipe.optimizer["type"] == "AdamW"
    assert "too few for LARC" in recipe.reasons["optimizer"]
    assert (recipe.epsilon, recipe.jitter) == (0.02, 0.4)
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
    assert (tiny.num_prototypes, tiny.num_patch_prototypes, tiny.epochs) == (30, 30, 800)
    assert (huge.num_prototypes, huge.num_patch_prototypes, huge.epochs) == (3000, 1500, 100)
    assert tiny.batch_size == 8  # 100 images: at least 8 steps an epoch
    assert choose(batch_size=48, epochs=3).batch_size == 48


def test_queues_hold_whole_steps_and_at_most_half_the_data():
    recipe = choose(num_images=600, num_devices=1, on_gpu=False)
    rows = [recipe.batch_size * m for m in (1, 4, 9)]
    lengths = [recipe.queue_length, *recipe.patch_queue_length]
    for length, row, m in zip(lengths, rows, (1, 4, 9), strict=True):
        assert length % row == 0
        assert length + row <= m * 600 / 2 + row / 2


def test_warns_when_batch_and_queue_are_fewer_than_prototypes():
    recipe = choose(num_images=20, num_devices=1)
    assert len(recipe.warnings) == 1
    assert "batch + queue = 10 embeddings are assigned to K = 30" in recipe.warnings[0]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epochs": 0}, "epochs must be >= 1, but got 0"),
        ({"accumulation": 0}, "accumulate must be >= 1, but got 0"),
        ({"num_images": 100, "batch_size": 64}, "choose a batch size from 2 to 50"),
        (
            {"num_images": 100, "batch_size": 16, "accumulation": 4},
            r"batch size 16 4 times on 2 .* from 2 to 12, lower --accumulate, use fewer devices",
        ),
        ({"num_images": 12, "accumulation": 100}, r"device\(s\); lower --accumulate, use fewer"),
        ({"num_images": 100, "batch_size": 1}, "a step needs 2 images per device"),
    ],
)
def test_bad_input(kwargs, message):
    with pytest.raises(ValueError, match=message):
        choose(**kwargs)


def test_every_backbone_builds_with_its_channels():
    import torch

    from mmssprl.models.ssprl import pool
    from mmssprl.registry import MODELS

    for name, (cfg, channels) in BACKBONES.items():
        backbone = MODELS.build({**cfg, "type": f"mmpretrain.{cfg['type']}"})
        backbone.eval()
        with torch.no_grad():
            for px in (64, 48):
                assert pool(backbone(torch.zeros(1, 3, px, px))).shape == (1, channels), name
