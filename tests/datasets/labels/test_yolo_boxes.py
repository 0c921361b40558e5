"""Boxes of YOLO's texts that fit their images only with another meaning of their numbers."""

import numpy as np
import pytest
from helpers.datasets.labelled_folders import refused, write_yolo

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.yolo_boxes import check_boxes


def centred(num=40, seed=0):
    """Boxes inside the image as centre, width and height (num, 4)."""
    rng = np.random.default_rng(seed)
    sides = rng.uniform(0.1, 0.4, (num, 2))
    return np.hstack([rng.uniform(sides / 2, 1 - sides / 2), sides])


def as_corners(boxes):
    return np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])


def from_corner(boxes):
    return np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]])


def split(boxes):
    """Boxes of class 0 by file, three in each."""
    found = {}
    for number, box in enumerate(boxes.tolist()):
        found.setdefault(f"{number // 3 * 3}.txt", []).append((0, box))
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("change", "meaning"),
    [(as_corners, "the corners x1 y1 x2 y2"), (from_corner, "x and y of the upper left corner")],
)
def test_boxes_of_another_meaning_are_refused(change, meaning, seed):
    boxes = change(centred(seed=seed))
    with pytest.raises(ValueError, match=f"of 40 would leave their image.* all fit as {meaning}"):
        check_boxes(split(boxes))


def test_the_first_box_that_leaves_its_image_is_named():
    boxes = np.full((10, 4), 0.25)
    boxes[4:6] = 0.0, 0.5, 0.2, 0.25
    with pytest.raises(ValueError, match=r"but 2 of 10 .* example 0 0.5 0.2 0.25 in 3.txt; all"):
        check_boxes(split(boxes))


def test_ordinary_boxes_are_taken_as_they_are():
    check_boxes(split(centred()))


def test_boxes_that_leave_the_image_on_all_sides_are_not_clipped():
    boxes = centred()
    boxes[:, :2] = np.random.default_rng(1).uniform(0, 1, (len(boxes), 2))
    check_boxes(split(boxes))


def test_some_boxes_may_leave_the_image():
    boxes = centred()
    boxes[:4, 0] = 0
    check_boxes(split(boxes))


def test_large_boxes_that_are_not_clipped_are_no_corners():
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.44, 0.56, (40, 2))
    check_boxes(split(np.hstack([centres, rng.uniform(0.9, 1.0, (40, 2))])))


def test_few_boxes_say_nothing():
    check_boxes(split(from_corner(centred(9))))


def test_texts_are_refused_before_a_training(tmp_path):
    root = write_yolo(tmp_path)
    for path in root.glob("labels/*/*.txt"):
        path.write_text("0 0.02 0.1 0.3 0.4\n")
    refused(root, "detect", r"24 of 24 would leave .* example 0.02 0.1 0.3 0.4 in labels/train/0")


def test_polygons_have_no_centre(tmp_path):
    assert find_labels(write_yolo(tmp_path, polygons=True), "segment").num_boxes == 32
