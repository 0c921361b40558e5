from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.label_changes import replaced
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    box_of,
    shapes_of,
    write_coco,
    write_yolo,
)
from pycocotools import mask as run_lengths

from mmssprl.datasets.labels import LabelledImage, Object, find_labels
from mmssprl.datasets.labels.label_maps import draw_mask, read_label_map


def squares(index, first):
    """Label map of the boxes of an image's shapes: disc and square are drawn as boxes."""
    expected = np.zeros((HEIGHT, WIDTH), np.uint8)
    for shape in shapes_of(index):
        x, y, width, height = box_of(index, shape)
        expected[y : y + height, x : x + width] = first[shape]
    return expected


def test_polygons_are_drawn_over_the_background(tmp_path):
    coco = find_labels(write_coco(tmp_path / "coco"), "dense")
    yolo = find_labels(write_yolo(tmp_path / "yolo", polygons=True), "dense")
    assert coco.classes == ["background", "square", "disc"]
    assert yolo.classes == ["background", "disc", "square"]
    for found, name, first in ((coco, "Shot-{:02d}", [2, 1]), (yolo, "{}", [1, 2])):
        images = {Path(image.path).name.partition(".")[0]: image for image in found.train}
        for index in range(3):
            labels = read_label_map(images[name.format(index)])
            assert (labels == squares(index, first)).all()
    replaced("*/*.json", '"disc"', '"background"')(tmp_path / "coco")
    renamed = find_labels(tmp_path / "coco", "dense").classes
    assert renamed == ["no object", "square", "background"]


def test_the_smaller_object_is_in_front_and_crowds_and_boxes_count_nowhere():
    code = run_lengths.encode(np.asfortranarray(np.tri(4, 6, dtype=np.uint8)))
    lower = {"size": [4, 6], "counts": code["counts"].decode()}
    things = (
        Object(1, segmentation=[[1, 1, 3, 1, 3, 3, 1, 3]]),
        Object(2, segmentation={"size": [4, 6], "counts": [0, 12, 12]}),  # its left half
        Object(3, segmentation=lower, is_crowd=True),
        Object(4, box=(4.2, 0, 1.3, 1.5)),  # nobody has drawn it
    )
    labels = read_label_map(LabelledImage("a.jpg", things, size=(6, 4)))
    assert labels.tolist() == [
        [2, 2, 2, 0, 255, 255],
        [2, 1, 1, 0, 255, 255],
        [2, 1, 1, 0, 0, 0],
        [2, 2, 2, 255, 0, 0],
    ]
    with pytest.raises(ValueError, match="run lengths must sum up to .* 4 x 6"):
        draw_mask({"size": [4, 6], "counts": "zzzz"}, 6, 4)
    whole = read_label_map(LabelledImage("a.jpg", (Object(1),), size=(6, 4)))
    assert (whole == 255).all()
