import numpy as np
import torch

from mmssprl.embedding.crops import Crops
from mmssprl.evaluation.features import centre_crop
from mmssprl.pyramid import PyramidLevel, ViewLayout


def test_cells_divide_the_whole_image_row_by_row():
    # Each quarter of the image has a value of its own, far from its borders.
    image = torch.zeros(3, 64, 96, dtype=torch.uint8)
    image[:, :32, 48:], image[:, 32:, :48], image[:, 32:, 48:] = 80, 160, 240
    whole, cells = Crops(16, ((2, 8),)).cut(image)
    assert torch.equal(whole[0], centre_crop(image, 16))
    assert cells.shape == (4, 3, 8, 8)
    assert cells[:, 1, 4, 4].tolist() == [0, 80, 160, 240]


def test_every_pixel_of_a_cell_is_where_it_belongs():
    # At its own size nothing is resized: the cells are the image, cut apart.
    image = torch.arange(36, dtype=torch.uint8).reshape(1, 6, 6).expand(3, 6, 6)
    _, cells = Crops(4, ((3, 2),)).cut(image)
    assert cells[0, 0].tolist() == [[0, 1], [6, 7]]
    assert cells[5, 2].tolist() == [[16, 17], [22, 23]]


def test_boxes_scales_and_cells_of_hand():
    crops = Crops(224, ((2, 8),))
    assert crops.scales.tolist() == [0, 1, 1, 1, 1]
    assert crops.cells.tolist() == [0, 0, 1, 2, 3]
    # The shorter side, 256, is kept; 224 of it lie in the middle, beside 16 and 116.
    np.testing.assert_allclose(
        crops.boxes(256, 456),
        [
            [116, 16, 340, 240],
            [0, 0, 228, 128],
            [228, 0, 456, 128],
            [0, 128, 228, 256],
            [228, 128, 456, 256],
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
    assert Crops.of_pyramid(32, layout).levels == ((4, 12),)
    paper = ((2, 112), (3, 96))
    assert Crops.of_pyramid(224, None).levels == paper
    assert Crops.of_pyramid(64, ViewLayout(image_px=64, levels=())).levels == paper
