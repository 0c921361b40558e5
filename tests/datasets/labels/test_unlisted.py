"""Images among labelled ones that no annotation names."""

import shutil

import pytest
from helpers.datasets.image_folders import lock_folders
from helpers.datasets.labelled_folders import (
    write_coco,
    write_flat,
    write_image,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels

UNLISTED = "next to labelled ones are in no annotation file"


def without_lists(root):
    shutil.rmtree(write_voc(root) / "ImageSets")
    return root


def told(root, task="detect"):
    return [warning for warning in find_labels(root, task).warnings if UNLISTED in warning]


@pytest.mark.parametrize(("write", "folder"), [(write_flat, "."), (without_lists, "JPEGImages")])
@pytest.mark.parametrize("task", ["detect", "classify"])
def test_unlisted_images_are_counted(tmp_path, write, folder, task):
    root = write(tmp_path)
    assert not told(root, task)
    num = len([*(root / folder).glob("*.*g")])
    for index in range(3):
        write_image(root / folder / f"x{index}.jpg", index)
    (warning,) = told(root, task)
    assert warning.startswith(f"3 of {num + 3} images {UNLISTED}, for example ")
    assert "x0.jpg: they are not used" in warning


def test_images_in_other_folders_are_for_tests(tmp_path):
    write_image(write_coco(tmp_path) / "test/1.jpg", 0)
    assert not told(tmp_path)


def test_images_that_a_list_leaves_out_are_meant_to_be(tmp_path):
    root = write_voc(tmp_path)
    write_image(root / "JPEGImages/more.jpg", 0)
    assert not told(root)


def test_detection_does_not_learn_from_images_without_an_object(tmp_path):
    root = write_yolo(tmp_path)
    write_image(root / "images/train/more.jpg", 0)
    assert not told(root)
    told_of = {task: find_labels(root, task).warnings for task in ("detect", "classify")}
    bare = "1 of 17 images of train have no annotation"
    assert f"{bare}: detection does not learn from them." in told_of["detect"]
    assert f"{bare}." in told_of["classify"]


def test_folders_that_cannot_be_listed_are_named(tmp_path, monkeypatch):
    root = write_yolo(tmp_path)
    write_image(root / "images/train/locked/1.jpg", 0)
    lock_folders(monkeypatch)
    first, *_ = find_labels(root, "detect").warnings
    assert first.startswith("1 folder cannot be listed ([Errno 13] Permission denied: ")
