"""The queues that a recipe chooses."""

import pytest
from helpers.pretraining.recipes import CPU, choose, head_of

from mmssprl.pyramid import ViewLayout


@pytest.mark.parametrize(("num_devices", "start"), [(1, 1), (2, 80), (8, 80)])
def test_a_queue_starts_early_where_a_step_has_few_rows(num_devices, start):
    assert head_of(choose(num_devices=num_devices))["queue_start_epoch"] == start


@pytest.mark.parametrize("num_images", [128, 130, 256, 1024, 4096])
def test_no_queue_is_shorter_than_a_batch(num_images):
    recipe = choose(
        num_images=num_images, epochs=15_000_000 // num_images, batch_size=64, num_devices=1
    )
    head, patches = head_of(recipe), ViewLayout.build(recipe.layout).patches_per_scale
    lengths = [head["queue_length"], *head["patch_queue_length"]]
    assert all(n == 0 or n >= num * 64 for n, num in zip(lengths, patches, strict=True))


def test_queues_are_longer_than_a_step_and_no_longer_than_the_data():
    data = {**CPU, "num_images": 40}
    half = choose("mocov2", **data, batch_size=16)
    assert (half.values["model.queue_length"], half.warnings) == (20, [])
    more = choose("mocov2", **data, batch_size=32)
    assert more.values["model.queue_length"] == 33
    assert "queue of 33 keys" in more.warnings[0]
