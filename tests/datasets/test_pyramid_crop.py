import math
from collections import Counter

import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import coordinates
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms.functional import resize

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms.pyramid_crop import Cropper, PyramidCrop, draw_box
from mmssprl.pyramid import PyramidLevel, ViewLayout
from mmssprl.registry import TRANSFORMS

# On an image of exactly resize_px, area (1, 1) makes the level's crop the image itself, and the
# resize the identity: patches are slices, and coordinates are read off their pixels exactly.
GRID = 3
RESIZE = 62
PATCH = 12
CELL = 20
EXACT = ViewLayout(
    image_px=16,
    num_small=2,
    small_px=8,
    levels=(PyramidLevel(GRID, RESIZE, PATCH, (1.0, 1.0)), PyramidLevel(2, RESIZE, 8, (1.0, 1.0))),
)


def cut(layout, *seed):
    return PyramidCrop(layout)({"img": coordinates(RESIZE, RESIZE), "crop_seed": seed})


def places_of_kinds(seed):
    """Places of views, small views and patches; a test below compares places with crops."""
    levels = (PyramidLevel(2, 80, 40, (0.3, 0.9)),)
    layout = ViewLayout(16, (0.3, 0.5), 4, small_px=12, small_area=(0.1, 0.2), levels=levels)
    transform = PyramidCrop(layout, with_places=True)
    results = transform({"img": coordinates(200, 250), "crop_seed": (seed,)})
    return [places.double() for places in results["data_samples"]["places"]]


def test_one_packed_tensor_per_group_in_the_order_of_the_layout():
    # Small views and the second level have 8 px, but the first level is between them.
    results = cut(EXACT, 0)
    assert list(results) == ["inputs"]
    shapes = [(2, 3, 16, 16), (2, 3, 8, 8), (18, 3, PATCH, PATCH), (8, 3, 8, 8)]
    assert [tuple(x.shape) for x in results["inputs"]] == shapes
    assert {x.dtype for x in results["inputs"]} == {torch.uint8}


def test_small_views_come_before_patches_of_their_size():
    layout = ViewLayout(8, num_small=2, small_px=8, levels=EXACT.levels[1:])
    (crops,) = PyramidCrop(layout)({"img": coordinates(RESIZE, RESIZE), "crop_seed": (0,)})[
        "inputs"
    ]
    # A patch is a slice: its rows count up by one. Larger views are resized.
    slopes = crops[:, 1].int().diff(dim=1)
    assert [bool((slope == 1).all()) for slope in slopes] == [False] * 4 + [True] * 8


def test_positions_in_the_cell_are_uniform_without_the_remainder():
    offsets = Counter()
    largest = 0
    for seed in range(200):
        patches = cut(EXACT, seed)["inputs"][2][:, :2]  # of the first level
        largest = max(largest, int(patches.max()))
        offsets.update((patches[..., 0, 0] % CELL).flatten().tolist())
    assert largest == GRID * CELL - 1  # 60 and 61 are left over
    assert sorted(offsets) == list(range(CELL - PATCH + 1))
    expected = offsets.total() / 9
    assert sum((n - expected) ** 2 / expected for n in offsets.values()) < 26.1  # 8 degrees, 0.999


@pytest.mark.parametrize("seed", range(4))
def test_views_have_areas_in_their_ranges(seed):
    views, small, _ = places_of_kinds(seed)
    for boxes, low, high in ((views, 0.3, 0.5), (small, 0.1, 0.2)):
        shares = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1) / (200 * 250)
        assert 0.97 * low < shares.min()
        assert shares.max() < 1.03 * high
    assert len({tuple(box) for box in torch.cat([views, small]).tolist()}) == 6


@pytest.mark.parametrize("seed", range(4))
def test_patches_as_large_as_their_cells_are_the_quarters_of_one_crop(seed):
    _, _, patches = places_of_kinds(seed)
    assert torch.equal(patches[:4], patches[4:])
    size = patches[:, 2:].amax(0) - patches[:, :2].amin(0)
    assert 0.29 < size.prod() / (200 * 250) < 0.91
    corners = (patches[:4, :2] - patches[:, :2].amin(0)) / size
    assert sorted(corners.mul(2).round().tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    torch.testing.assert_close(patches[:, 2:] - patches[:, :2], size.expand(8, 2) / 2)


@pytest.fixture(scope="module")
def drawn():
    """Tops, lefts, heights and widths (4, 4000) of boxes of an image of 600 x 800 px."""
    rng = np.random.default_rng(0)
    return np.array([draw_box(600, 800, (0.05, 0.14), rng) for _ in range(4000)], float).T


def test_areas_are_uniform(drawn):
    _, _, heights, widths = drawn
    shares = heights * widths / (600 * 800)
    assert 0.0495 < shares.min() < 0.0515
    assert 0.1385 < shares.max() < 0.1405
    assert abs(shares.mean() - 0.095) < 0.0015


def test_logarithms_of_aspects_are_uniform(drawn):
    _, _, heights, widths = drawn
    logs = np.log(widths / heights) / math.log(4 / 3)
    assert np.abs(logs).max() < 1.02
    assert abs(logs.mean()) < 0.03
    assert abs(logs.std() - 1 / math.sqrt(3)) < 0.015  # uniform on [-1, 1]


def test_positions_are_uniform(drawn):
    tops, lefts, heights, widths = drawn
    for corner, free in ((tops, 600 - heights), (lefts, 800 - widths)):
        quantiles = np.sort(corner / free)[[400, 2000, 3600]]
        assert np.allclose(quantiles, [0.1, 0.5, 0.9], atol=0.03)


@pytest.mark.parametrize(
    ("size", "box"),
    [
        ((100, 1000), (0, 433, 100, 133)),  # wide: width / height 4/3
        ((1000, 100), (433, 0, 133, 100)),  # tall: width / height 3/4
        ((100, 110), (0, 0, 100, 110)),  # legal aspect: everything
        ((1, 1), (0, 0, 1, 1)),
    ],
)
def test_central_crop_where_no_draw_fits(size, box):
    assert draw_box(*size, (1.0, 1.0), np.random.default_rng(0)) == box


@pytest.mark.parametrize("px", [96, 383])
def test_resized_crop_matches_torchvision_on_pil(px):
    rng = np.random.default_rng(px)
    coarse = Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))
    image = np.array(coarse.resize((400, 320), Image.Resampling.BICUBIC))
    image = (image + rng.integers(0, 20, image.shape)).clip(0, 255).astype(np.uint8)
    got = Cropper(image, np.random.default_rng(5)).random_resized_crop((0.2, 0.9), px)
    top, left, height, width = draw_box(320, 400, (0.2, 0.9), np.random.default_rng(5))
    crop = Image.fromarray(image[top : top + height, left : left + width])
    difference = np.abs(np.array(resize(crop, [px, px])).astype(int) - got)
    assert (difference <= 1).mean() >= 0.99
    assert difference.max() <= 3


def test_bad_layouts_are_refused():
    with pytest.raises(TypeError, match="layout must be a dict"):
        PyramidCrop(224)
    with pytest.raises(ValueError, match="PretrainHook sets from model.layout"):
        PyramidCrop().transform({"img": np.zeros((8, 8, 3), np.uint8)})
    with pytest.raises(ValueError, match=r"levels\[0\]: grid must be at least 2"):
        PyramidCrop({"levels": [{"grid": 1, "resize_px": 40, "patch_px": 16}]})


def test_other_values_than_images_are_refused():
    transform = TRANSFORMS.build({"type": "PyramidCrop", "layout": EXACT})
    assert "patch_px=12" in repr(transform)
    image = coordinates(9, 8)
    for bad in (image.double(), image[0], image[:, :0], Image.new("RGB", (9, 9))):
        with pytest.raises(ValueError, match=r"img must be an image, a tensor.*got (Tensor|Image)"):
            transform({"img": bad})


def test_unseeded_workers_differ():
    transform = PyramidCrop(ViewLayout(8, levels=()))
    image = {"img": coordinates(100, 100)}
    transform(image)  # a generator already used here must not be what both workers inherit
    crops = DataLoader(range(8), num_workers=2, collate_fn=lambda _: transform(image)["inputs"][0])
    assert len({tuple(crop.flatten().tolist()) for crop in crops}) == 8


# As above: patches are slices of 10 px, in cells of 15 and of 10.
SIDE = 30
SLICE = 10
IMAGE = coordinates(SIDE, SIDE)


def transform_for(*num_sampled):
    levels = tuple(
        PyramidLevel(grid, SIDE, SLICE, (1.0, 1.0), n)
        for grid, n in zip((2, 3), num_sampled, strict=True)
    )
    return PyramidCrop(ViewLayout(image_px=8, levels=levels))


def cut_cells(transform, seed):
    return transform({"img": IMAGE, "crop_seed": (seed,)})["inputs"]


def cells_of(transform, seed):
    """Return the cell of each patch, per level (2, P); all of its pixels must be in it."""
    layout = transform.layout
    scales = layout.split(cut_cells(transform, seed))  # (2, P, 3, px, px)
    cells = []
    for level, patches in zip(layout.levels, scales[1:], strict=True):
        columns, rows = (patches[:, :, channel].int() // level.cell_px for channel in (0, 1))
        cell = (rows * level.grid + columns).flatten(2)
        assert (cell == cell[..., :1]).all()
        cells.append(cell[..., 0])
    return cells


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
    transform = transform_for(*num_sampled)
    counts = (Counter(), Counter())
    num_images = 720
    for seed in range(num_images):
        for count, cells in zip(counts, cells_of(transform, seed), strict=True):
            assert torch.equal(cells[0], cells[1])  # in both views, and none twice
            count[tuple(cells[0].tolist())] += 1

    for count, outcomes, limit in zip(counts, num_outcomes, quantile, strict=True):
        assert len(count) == outcomes
        expected = num_images / outcomes
        assert sum((n - expected) ** 2 / expected for n in count.values()) < limit


def test_the_crops_of_a_seed_stay_the_same():
    # Recorded before cells were sampled: resumed runs must see the same crops.
    transform = transform_for(None, None)
    cells = [level[0].tolist() for level in cells_of(transform, 0)]
    assert cells == [[3, 2, 1, 0], [5, 4, 3, 8, 7, 6, 2, 1, 0]]
    columns_and_rows = cut_cells(transform, 0)[1][:8, :2, 0, 0].tolist()
    assert columns_and_rows[:4] == [[20, 19], [2, 15], [15, 3], [3, 3]]
    assert columns_and_rows[4:] == [[20, 19], [2, 17], [20, 2], [2, 1]]


SMALL = ViewLayout(image_px=8, levels=[{"grid": 2, "resize_px": 8, "patch_px": 4}])
CHANNEL_LAST = [(2, (384, 192, 1, 24, 3)), (8, (384, 48, 1, 12, 3))]
"""Crops per sample and strides of a batch, by hand: 8 and 4 px, 3 channels side by side."""


def test_values_of_default_collate_but_channel_last_in_a_worker():
    images = torch.randint(256, (3, 3, 20, 30), dtype=torch.uint8)
    crop = PyramidCrop(SMALL)
    samples = [crop({"img": images[i], "crop_seed": (0, 0, i)}) for i in range(3)]
    (batch,) = DataLoader(samples, batch_size=3, num_workers=1, collate_fn=stack_views)
    assert [(t.shape[1], t.stride()) for t in batch["inputs"]] == CHANNEL_LAST
    (plain,) = DataLoader(samples, batch_size=3, num_workers=1)
    assert all(map(torch.equal, batch["inputs"], plain["inputs"]))
    assert plain["inputs"][0].stride() != CHANNEL_LAST[0][1]  # the reason it exists
