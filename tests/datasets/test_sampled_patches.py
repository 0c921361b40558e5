from collections import Counter

import pytest
import torch
from helpers.datasets.image_folders import coordinates

from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.pyramid import PyramidLevel, ViewLayout

# On an image of exactly resize_px, area (1, 1) makes the level's crop the image itself, and the
# resize the identity: patches are slices of 10 px, in cells of 15 and of 10.
SIDE, PATCH = 30, 10
IMAGE = coordinates(SIDE, SIDE)


def transform_for(*num_sampled):
    levels = tuple(
        PyramidLevel(grid, SIDE, PATCH, (1.0, 1.0), n)
        for grid, n in zip((2, 3), num_sampled, strict=True)
    )
    return PyramidCrop(ViewLayout(image_px=8, levels=levels))


def cut(transform, seed):
    return transform({"img": IMAGE, "crop_seed": (seed,)})["inputs"]


def cells_of(transform, seed):
    """Return the cell of each patch, per level (2, P); every pixel must lie in it."""
    layout = transform.layout
    scales = layout.split(cut(transform, seed))  # (2, P, 3, px, px)
    cells = []
    for level, patches in zip(layout.levels, scales[1:], strict=True):
        columns, rows = (patches[:, :, channel].int() // level.cell_px for channel in (0, 1))
        cell = (rows * level.grid + columns).flatten(2)
        assert (cell == cell[..., :1]).all()
        cells.append(cell[..., 0])
    return cells


@pytest.mark.parametrize("num_sampled", [(2, 3), (1, 8), (None, 5), (4, 1), (None, None)])
def test_both_views_show_the_same_cells_and_none_twice(num_sampled):
    transform = transform_for(*num_sampled)
    wanted = [n or cells for n, cells in zip(num_sampled, (4, 9), strict=True)]
    assert transform.layout.patches_per_scale == (1, *wanted)
    for seed in range(20):
        for cells, num_patches in zip(cells_of(transform, seed), wanted, strict=True):
            assert cells.shape == (2, num_patches)
            assert torch.equal(cells[0], cells[1])
            assert len(set(cells[0].tolist())) == num_patches


@pytest.mark.parametrize(
    ("num_sampled", "num_outcomes", "quantile"),
    [
        # The 0.999 quantile of chi-square with one degree of freedom less than outcomes.
        ((2, 1), (4 * 3, 9), (31.3, 26.1)),
        ((1, 2), (4, 9 * 8), (16.3, 113.6)),
        ((3, 9), (4 * 3 * 2, 6 * 6), (49.7, 66.6)),  # all of 9: orders of rows and of columns
    ],
)
def test_every_choice_of_cells_occurs_equally_often(num_sampled, num_outcomes, quantile):
    transform, counts, num_images = transform_for(*num_sampled), (Counter(), Counter()), 1440
    for seed in range(num_images):
        for count, cells in zip(counts, cells_of(transform, seed), strict=True):
            count[tuple(cells[0].tolist())] += 1
    for count, outcomes, limit in zip(counts, num_outcomes, quantile, strict=True):
        assert len(count) == outcomes
        expected = num_images / outcomes
        assert sum((n - expected) ** 2 / expected for n in count.values()) < limit


def test_the_crops_of_a_seed_stay_as_they_were_before_cells_were_sampled():
    # Written down from the code of that time: a run that is resumed must see the same crops.
    transform = transform_for(None, None)
    cells = [level[0].tolist() for level in cells_of(transform, 0)]
    assert cells == [[3, 2, 1, 0], [5, 4, 3, 8, 7, 6, 2, 1, 0]]
    columns_and_rows = cut(transform, 0)[1][:8, :2, 0, 0].tolist()
    assert columns_and_rows[:4] == [[20, 19], [2, 15], [15, 3], [3, 3]]
    assert columns_and_rows[4:] == [[20, 19], [2, 17], [20, 2], [2, 1]]
