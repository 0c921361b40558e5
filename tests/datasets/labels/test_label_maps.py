"""The class of each pixel, of label images and of the masks of objects."""

import json

import numpy as np
import pytest
from helpers.datasets.label_changes import replaced, values
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    box_of,
    images_of,
    shapes_of,
    write_coco,
    write_masks,
    write_yolo,
)
from PIL import Image
from pycocotools import mask as run_lengths

from mmssprl.datasets.labels import LabelledImage, Object, find_labels
from mmssprl.datasets.labels.label_maps import draw_mask, read_label_map
from mmssprl.datasets.transforms import LoadLabelMap
from mmssprl.finetuning.label_files import read_labels, write_labels


@pytest.mark.parametrize("suffix", [".bmp", ".tif", ".PNG"])
def test_lossless_formats(tmp_path, suffix):
    expected = find_labels(write_masks(tmp_path / "png"), "segment")
    root = write_masks(tmp_path / "other")
    for path in [*root.glob("masks/*/*.png")]:
        pixels = Image.open(path)
        path.unlink()
        pixels.save(path.with_suffix(suffix))
    data = find_labels(root, "segment")
    pairs = zip(images_of(data), images_of(expected), strict=True)
    assert all(np.array_equal(read_label_map(a), read_label_map(b)) for a, b in pairs)


@pytest.mark.parametrize(("third", "num"), [(33, 34), (200, 201)])
def test_indices_may_be_skipped_where_they_have_names_or_are_few(tmp_path, third, num):
    root = write_masks(tmp_path, classes=None)
    values(0, 1, third)(root)
    if num > 100:
        (root / "classes.txt").write_text("".join(f"c{i}\n" for i in range(num)))
    assert len(find_labels(root, "segment").classes) == num


@pytest.mark.parametrize("write", [write_coco, lambda root: write_yolo(root, polygons=True)])
def test_masks_of_objects_are_segmented(tmp_path, write):
    names = ["square", "disc"]
    root = write(tmp_path / "data")
    data, probed = find_labels(root, "segment"), find_labels(root, "dense")
    assert data == probed
    assert data.classes == ["background", *(names if write is write_coco else names[::-1])]
    write_labels(data, tmp_path / "labels", "segment")
    again = read_labels(tmp_path / "labels", data.root, data.layout)
    content = json.loads((tmp_path / "labels/val.json").read_text())
    for item, image, read in zip(content["data_list"], data.val, again.val, strict=True):
        found = LoadLabelMap().transform(dict(item))
        assert found["seg_fields"] == ["gt_seg_map"]
        index = int("".join(filter(str.isdigit, image.path.rpartition("/")[2]))[:2])
        expected = np.zeros((HEIGHT, WIDTH), np.uint8)
        for shape in shapes_of(index):  # both are drawn as boxes
            x, y, width, height = box_of(index, shape)
            label = data.classes.index(("disc", "square")[shape])
            expected[y : y + height, x : x + width] = label
        assert np.array_equal(found["gt_seg_map"], expected)
        assert np.array_equal(read_label_map(read), found["gt_seg_map"])


def test_a_class_may_be_called_background(tmp_path):
    replaced("*/*.json", '"disc"', '"background"')(write_coco(tmp_path))
    assert find_labels(tmp_path, "dense").classes == ["no object", "square", "background"]


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
