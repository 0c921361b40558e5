import pytest
import torch
from reference import pooled_by_loops

from mmssprl.functional.boxes import boxes_in_crop, mirror_places, pixels_in_boxes, pool_boxes


def test_only_what_is_flipped_is_mirrored():
    places = torch.tensor([[[1.0, 2.0, 5.0, 9.0]], [[0.0, 1.0, 3.0, 2.0]]])
    mirrored = mirror_places(places, torch.tensor([False, True]))
    assert mirrored.tolist() == [[[1, 2, 5, 9]], [[3, 1, 0, 2]]]
    assert mirror_places(places, None) is places


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        # The crop shows x from 10 to 30 and y from 4 to 8 on 10 x 10 pixels.
        ((10.0, 4.0, 30.0, 8.0), (1.0, 2.5, 4.0, 10.0)),
        ((30.0, 4.0, 10.0, 8.0), (6.0, 2.5, 9.0, 10.0)),
    ],
)
def test_a_box_in_a_crop_and_in_a_mirrored_one(place, expected):
    box = torch.tensor([12.0, 5.0, 18.0, 8.0])
    assert boxes_in_crop(box, torch.tensor(place), 10).tolist() == pytest.approx(list(expected))


def test_the_pixels_of_a_box_with_its_edges():
    marked = pixels_in_boxes(torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 1.6, 4.0, 2.4]]), 4)
    rows = ["".join(str(int(x)) for x in row) for row in marked.flatten(0, 1)]
    # The second box is thin: no centre of a pixel but those of row 1 (1.5) and 2 (2.5) is near.
    assert rows == ["0110", "0110", "0000", "0000", "0000", "0000", "0000", "0000"]


def test_pooling_equals_bilinear_loops():
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 2, 6, 6, generator=generator, dtype=torch.float64)
    boxes = torch.tensor(
        [
            [[0, 0, 48, 48], [3, 5, 20, 31.5], [-9, 10, 60, 12]],
            [[8, 8, 16, 24], [40, 1, 47, 9], [0, 0, 1, 1]],
        ],
        dtype=torch.float64,
    )
    found = pool_boxes(maps, boxes, 48, cells=3).view(2, 3, 2, 3, 3)
    for n in range(2):
        for r in range(3):
            for c in range(2):
                expected = pooled_by_loops(maps[n, c], boxes[n, r], 48, 3, 2)
                torch.testing.assert_close(found[n, r, c], expected, atol=1e-12, rtol=0)
