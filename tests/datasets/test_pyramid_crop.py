import math
from collections import Counter

import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import coordinates
from helpers.functional.photometric_cases import ONLY_FLIPPED
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms.functional import resize

from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms.pyramid_crop import Cropper, PyramidCrop, draw_box
from mmssprl.models import PyramidPreprocessor
from mmssprl.pyramid import PyramidLevel, ViewLayout
from mmssprl.registry import TRANSFORMS

# On an image of exactly resize_px, area (1, 1) makes the level's crop the image itself, and the
# resize the identity: patches are slices, and coordinates are read off their pixels exactly.
GRID, RESIZE, PATCH, CELL = 3, 62, 12, 20
EXACT = ViewLayout(
    image_px=16,
    num_small=2,
    small_px=8,
    levels=(PyramidLevel(GRID, RESIZE, PATCH, (1.0, 1.0)), PyramidLevel(2, RESIZE, 8, (1.0, 1.0))),
)


def cut(layout, *seed):
    return PyramidCrop(layout)({"img": coordinates(RESIZE, RESIZE), "crop_seed": seed})


def test_one_packed_tensor_per_group_in_the_order_of_the_layout():
    # Small views and the second level have 8 px, but the first level is between them.
    results = cut(EXACT, 0)
    assert list(results) == ["inputs"]
    shapes = [(2, 3, 16, 16), (2, 3, 8, 8), (18, 3, PATCH, PATCH), (8, 3, 8, 8)]
    assert [tuple(x.shape) for x in results["inputs"]] == shapes
    layout = ViewLayout(8, num_small=2, small_px=8, levels=EXACT.levels[1:])
    assert [x.shape[0] for x in cut(layout, 0)["inputs"]] == [12]
    assert {x.dtype for x in results["inputs"]} == {torch.uint8}
    # A patch is a slice: its rows and columns count up by one. A small view is resized.
    slopes = results["inputs"][1][:, 1].int().diff(dim=1)
    assert (slopes[2:] == 1).all()
    assert not (slopes[:2] == 1).all()


def test_positions_in_the_cell_are_uniform_and_leave_the_remainder_out():
    offsets, largest = Counter(), 0
    for seed in range(200):
        patches = cut(EXACT, seed)["inputs"][2][:, :2]  # of the first level
        largest = max(largest, int(patches.max()))
        offsets.update((patches[..., 0, 0] % CELL).flatten().tolist())
    assert largest == GRID * CELL - 1  # 60 and 61 are left over
    assert sorted(offsets) == list(range(CELL - PATCH + 1))
    expected = offsets.total() / 9
    assert sum((n - expected) ** 2 / expected for n in offsets.values()) < 26.1  # 8 degrees, 0.999


@pytest.mark.parametrize("seed", range(4))
def test_areas_of_crops_and_one_crop_for_all_patches(seed):
    # A test below compares places with what crops show.
    levels = (PyramidLevel(2, 80, 40, (0.3, 0.9)),)
    layout = ViewLayout(16, (0.3, 0.5), 4, small_px=12, small_area=(0.1, 0.2), levels=levels)
    transform = PyramidCrop(layout, with_places=True)
    results = transform({"img": coordinates(200, 250), "crop_seed": (seed,)})
    views, small, patches = (x.double() for x in results["data_samples"]["places"])
    for boxes, low, high in ((views, 0.3, 0.5), (small, 0.1, 0.2)):
        shares = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1) / (200 * 250)
        assert 0.97 * low < shares.min()
        assert shares.max() < 1.03 * high
    assert len({tuple(box) for box in torch.cat([views, small]).tolist()}) == 6
    # Patches as large as their cells are the quarters of one crop, in both views.
    assert torch.equal(patches[:4], patches[4:])
    size = patches[:, 2:].amax(0) - patches[:, :2].amin(0)
    assert 0.29 < size.prod() / (200 * 250) < 0.91
    corners = (patches[:4, :2] - patches[:, :2].amin(0)) / size
    assert sorted(corners.mul(2).round().tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    torch.testing.assert_close(patches[:, 2:] - patches[:, :2], size.expand(8, 2) / 2)


def test_areas_and_aspects_have_the_stated_distribution():
    rng = np.random.default_rng(0)
    boxes = [draw_box(600, 800, (0.05, 0.14), rng) for _ in range(4000)]
    tops, lefts, heights, widths = np.array(boxes, float).T
    shares = heights * widths / (600 * 800)
    assert 0.0495 < shares.min() < 0.0515
    assert 0.1385 < shares.max() < 0.1405
    assert abs(shares.mean() - 0.095) < 0.0015
    logs = np.log(widths / heights) / math.log(4 / 3)
    assert np.abs(logs).max() < 1.02
    assert abs(logs.mean()) < 0.03
    assert abs(logs.std() - 1 / math.sqrt(3)) < 0.015  # uniform on [-1, 1]
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


def test_layout_and_image_errors():
    with pytest.raises(TypeError, match="layout must be a dict"):
        PyramidCrop(224)
    with pytest.raises(ValueError, match="PretrainHook sets from model.layout"):
        PyramidCrop().transform({"img": np.zeros((8, 8, 3), np.uint8)})
    with pytest.raises(ValueError, match=r"levels\[0\]: grid must be at least 2"):
        PyramidCrop({"levels": [{"grid": 1, "resize_px": 40, "patch_px": 16}]})
    transform = TRANSFORMS.build({"type": "PyramidCrop", "layout": EXACT})
    assert "patch_px=12" in repr(transform)
    image = coordinates(9, 8)
    for bad in (image.double(), image[0], image[:, :0], Image.new("RGB", (9, 9))):
        with pytest.raises(ValueError, match=r"img must be an image, a tensor.*got (Tensor|Image)"):
            transform({"img": bad})


def test_unseeded_workers_differ():
    transform, image = PyramidCrop(ViewLayout(8, levels=())), {"img": coordinates(100, 100)}
    transform(image)  # a generator already used here must not be what both workers inherit
    crops = DataLoader(range(8), num_workers=2, collate_fn=lambda _: transform(image)["inputs"][0])
    assert len({tuple(crop.flatten().tolist()) for crop in crops}) == 8


# As above: patches are slices of 10 px, in cells of 15 and of 10.
SIDE, SLICE = 30, 10
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
    transform, counts, num_images = transform_for(*num_sampled), (Counter(), Counter()), 720
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


LEVELS = (PyramidLevel(2, 40, 16), PyramidLevel(3, 40, 12, num_sampled=4))
PLACED = ViewLayout(20, num_small=2, small_px=12, small_area=(0.2, 0.4), levels=LEVELS)
WIDTH, HEIGHT = 250, 180


def samples(with_places=True):
    transform, image = PyramidCrop(PLACED, with_places=with_places), coordinates(HEIGHT, WIDTH)
    return [transform({"img": image, "crop_seed": (0, i)}) for i in range(3)]


def largest_error(crops, places):
    """Error of places in pixels, by the coordinates in the middle of crops (..., 3, px, px)."""
    px = crops.shape[-1]
    centres = (torch.arange(px) + 0.5) / px
    errors = []
    for channel, first in ((0, 0), (1, 1)):  # x is in red, y in green
        start, end = places[..., first, None], places[..., first + 2, None]
        expected = start + centres * (end - start) - 0.5  # pixel i is centred at i + 0.5
        shown = crops[..., channel, :, :].float().mean(-2 if channel == 0 else -1)
        # Resizing bends the ramp at the borders of a crop.
        errors.append((shown - expected)[..., px // 4 : -(px // 4)].abs().max())
    return float(max(errors))


def test_places_are_shown_by_their_crops_in_batches_and_flips():
    for sample, plain in zip(samples(), samples(with_places=False), strict=True):
        assert plain.keys() == {"inputs"}
        assert all(map(torch.equal, sample["inputs"], plain["inputs"]))
    batch, training = stack_views(samples()), []
    for given in (batch, {"inputs": batch["inputs"]}):
        torch.manual_seed(0)
        preprocessor = PyramidPreprocessor(PLACED, **ONLY_FLIPPED)
        training.append(preprocessor(given, training=True))
    out, without = training
    assert without["data_samples"] is None
    assert all(map(torch.equal, out["inputs"], without["inputs"]))
    places, before = out["data_samples"]["places"], batch["data_samples"]["places"]
    untouched = preprocessor(batch, training=False)["data_samples"]["places"]
    mirrored = []
    for crops, boxes, given, same in zip(out["inputs"], places, before, untouched, strict=True):
        assert torch.equal(same, given.transpose(0, 1))
        assert boxes.shape == (*crops.shape[:2], 4)
        assert largest_error(crops, boxes) < 1
        assert given.min() >= 0
        assert (given[..., 2:] <= torch.tensor([WIDTH, HEIGHT])).all()
        is_mirrored = boxes[..., :1] > boxes[..., 2:3]
        mirrored.append(is_mirrored.flatten())
        unmirrored = torch.where(is_mirrored, boxes[..., [2, 1, 0, 3]], boxes)
        assert torch.equal(unmirrored, given.transpose(0, 1))
    assert 0.3 < torch.cat(mirrored).float().mean() < 0.7


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
