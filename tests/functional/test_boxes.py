"""See tests/models/baselines/test_equations.py for boxes in crops, RoIAlign and pixels."""

import pytest
import torch
from reference import mean_over_box

from mmssprl.functional.boxes import cells_of_places, mean_weights, pool_boxes

pytestmark = pytest.mark.fence


BOXES = [
    [0.0, 0.0, 4.0, 3.0],  # the whole map
    [0.7, 0.2, 2.9, 1.1],
    [2.9, 0.2, 0.7, 1.1],  # mirrored
    [-3.0, 1.0, 9.0, 5.0],  # beyond the border
    [1.2, 1.2, 1.2, 1.2],  # a point
    [3.6, 2.6, 4.0, 3.0],  # outside the outer centres
]


@pytest.mark.parametrize(("height", "width"), [(3, 4), (4, 3), (1, 7), (1, 1)])
def test_means_over_boxes_equal_integrals(height, width):
    maps = torch.rand(1, 14, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    boxes = torch.tensor([BOXES], dtype=torch.float64)
    weights = mean_weights(boxes, torch.tensor([[height, width]]), num_cells=14)
    assert weights.shape == (1, len(BOXES), 14)
    for found, box in zip((weights @ maps)[0], BOXES, strict=True):
        expected = mean_over_box(maps[0, : height * width].numpy(), box, height, width)
        torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-12, rtol=0)


def test_cells_of_a_mirrored_place_begin_at_its_right_edge():
    places = torch.tensor([[0.0, 0.0, 4.0, 2.0], [4.0, 0.0, 0.0, 2.0]])
    cells = cells_of_places(places, 2)
    assert cells[:, 0].tolist() == [[0, 0, 2, 1], [2, 0, 4, 1], [0, 1, 2, 2], [2, 1, 4, 2]]
    assert cells[:, 1].tolist() == [[4, 0, 2, 1], [2, 0, 0, 1], [4, 1, 2, 2], [2, 1, 0, 2]]


def test_boxes_are_not_rounded_under_autocast():
    # Half precision holds these maps exactly, but not the corners of the boxes.
    maps = torch.arange(2 * 3 * 7 * 7.0).view(2, 3, 7, 7) % 64
    boxes = torch.tensor([[[100.3, 20.7, 210.6, 170.9]], [[3.1, 129.4, 98.2, 223.3]]])
    expected = pool_boxes(maps, boxes, 224)
    with torch.autocast("cpu", torch.bfloat16):
        found = pool_boxes(maps.bfloat16(), boxes, 224)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
