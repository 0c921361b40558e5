from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.features.backbone import Crops
from mmssprl.pyramid import PyramidLevel, ViewLayout


def test_patches_are_the_middles_of_the_cells_row_by_row():
    # Each quarter of the image has a value of its own, far from its borders.
    image = torch.zeros(3, 64, 96, dtype=torch.uint8)
    image[:, :32, 48:], image[:, 32:, :48], image[:, 32:, 48:] = 80, 160, 240
    whole, patches = Crops(16, (PyramidLevel(2, 24, 8),)).cut(image)
    assert torch.equal(whole, Crops(16).cut(image)[0])
    assert patches.shape == (4, 3, 8, 8)
    assert [patch.unique().tolist() for patch in patches] == [[0], [80], [160], [240]]


def test_every_pixel_of_a_patch_is_where_training_cuts_it():
    # At its own size nothing is resized: cells of 3 px, in whose middle lies one of 1 px, and two
    # columns and rows that belong to no cell.
    image = torch.arange(121, dtype=torch.uint8).reshape(1, 11, 11).expand(3, 11, 11)
    _, patches = Crops(4, (PyramidLevel(3, 11, 1),)).cut(image)
    assert patches[:, 0].flatten().tolist() == [12, 15, 18, 45, 48, 51, 78, 81, 84]


@pytest.mark.parametrize(("level", "object_px"), zip(ViewLayout().levels, (45, 55), strict=True))
def test_objects_are_as_large_as_in_the_patches_of_training(level, object_px):
    # Of the image's 700 px an object has 100, and a period begins with each of them.
    image = torch.zeros(3, 700, 700, dtype=torch.uint8)
    for start in range(0, 700, 200):
        image[:, :, start : start + 100] = 255
    whole = replace(level, area=(1.0, 1.0))
    layout = ViewLayout(image_px=16, levels=(whole,))
    trained = PyramidCrop(layout)({"img": image.permute(1, 2, 0).numpy(), "crop_seed": 0})
    for patches in (Crops(16, (level,)).cut(image)[1], trained["inputs"][1]):
        assert patches.shape[-1] == level.patch_px
        light = (patches[:, 0] > 127).int()
        ends = light.diff(dim=-1).abs()[:, 0].nonzero()  # (edges, 2): patch, column
        widths = [int(b - a) for (i, a), (j, b) in pairwise(ends.tolist()) if i == j]
        assert widths
        assert all(abs(width - object_px) <= 1 for width in widths)


def test_boxes_scales_and_cells_of_hand():
    crops = Crops(224, (PyramidLevel(2, 32, 8),))
    assert crops.scales.tolist() == [0, 1, 1, 1, 1]
    assert crops.cells.tolist() == [0, 0, 1, 2, 3]
    # The shorter side, 256, is kept; 224 of it lie in the middle, beside 16 and 116. Patches have
    # 4 px around them in cells of 16; a pixel of the square of 32 is 8 high and 14.25 wide.
    np.testing.assert_allclose(
        crops.boxes(256, 456),
        [
            [116, 16, 340, 240],
            [57, 32, 171, 96],
            [285, 32, 399, 96],
            [57, 160, 171, 224],
            [285, 160, 399, 224],
        ],
    )


def test_the_box_of_the_centre_holds_what_the_crop_shows():
    # A ramp over the columns; a crop's pixel is 100 / 64 of the image's, and its middle counts.
    image = torch.arange(0, 200, dtype=torch.uint8).expand(3, 100, 200).contiguous()
    (crop,) = Crops(56).cut(image)
    left, _, right, _ = Crops(56).boxes(100, 200)[0]
    inside = 50 / 64 - 0.5
    assert abs(crop[0, 0, 28, 0].item() - (left + inside)) < 0.6
    assert abs(crop[0, 0, 28, -1].item() - (right - inside - 1)) < 0.6


def test_levels_are_those_of_the_layout_or_of_the_paper():
    layout = ViewLayout(image_px=32, levels=(PyramidLevel(4, 64, 12, num_sampled=2),))
    assert Crops.of_pyramid(32, layout).levels == layout.levels
    assert len(Crops.of_pyramid(32, layout).cells) == 1 + 16  # those of a sampled level, too
    paper = ViewLayout().levels
    assert Crops.of_pyramid(224, None).levels == paper
    assert Crops.of_pyramid(64, ViewLayout(image_px=64, levels=())).levels == paper
