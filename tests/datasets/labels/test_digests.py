"""Digests of labelled images, each after one change in place."""

import shutil

import numpy as np
import pytest
from helpers.datasets.labelled_folders import (
    write_class_folders,
    write_coco,
    write_masks,
    write_voc,
    write_yolo,
)
from PIL import Image

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.digests import digests_of


def replace_text(pattern, old, new):
    """Return a change of the first file of a pattern that has the old text."""

    def change(root):
        path = next(path for path in sorted(root.glob(pattern)) if old in path.read_text())
        path.write_text(path.read_text().replace(old, new, 1))

    return change


def move_to_the_other_class(root):
    image = next(root.glob("disc/*.jpeg"))
    image.rename(root / "square" / "moved.jpeg")


def move_a_pixel(root):
    """Keep classes and size, as a correction of one pixel does."""
    path = root / "masks/train/0.png"
    pixels = np.asarray(Image.open(path)).copy()
    pixels[-1, -1] = 1
    Image.fromarray(pixels).save(path)


CHANGES = {
    "folders": (write_class_folders, "classify", move_to_the_other_class),
    "coco": (
        write_coco,
        "detect",
        replace_text("train/*.json", '"category_id": 9', '"category_id": 4'),
    ),
    "voc": (write_voc, "detect", replace_text("Annotations/*.xml", "<ymax>2", "<ymax>1")),
    "yolo": (write_yolo, "detect", replace_text("labels/train/*.txt", "0 ", "1 ")),
    "masks": (write_masks, "segment", move_a_pixel),
}


def digests(root, task):
    return digests_of(find_labels(root, task, measured=False))


@pytest.mark.parametrize("layout", CHANGES)
def test_a_corrected_label_is_seen_and_a_copy_is_the_same(layout, tmp_path):
    write, task, change = CHANGES[layout]
    root = write(tmp_path / "data")
    before = digests(root, task)
    shutil.copytree(root, tmp_path / "copied")
    assert digests(tmp_path / "copied", task) == before
    change(root)
    after = digests(root, task)
    assert after["labels"] != before["labels"]
    assert (after["images"] == before["images"]) is (layout != "folders")


@pytest.mark.parametrize("layout", CHANGES)
def test_an_image_of_another_size_is_seen(layout, tmp_path):
    write, task, _ = CHANGES[layout]
    root = write(tmp_path)
    before = digests(root, task)
    image = find_labels(root, task, measured=False).val[-1].path
    with open(image, "ab") as file:
        file.write(b"0")
    after = digests(root, task)
    assert after["images"] != before["images"]
    assert after["labels"] == before["labels"]
