"""Labelled images that cannot be decoded are named before a training."""

import numpy as np
import pytest
from helpers.datasets.labelled_folders import refused, write_flat, write_masks, write_yolo
from PIL import Image

from mmssprl.datasets.labels import find_labels
from mmssprl.probing import find_probe_data


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("task", ["classify", "detect"])
def test_a_cut_image_with_a_whole_header_is_named(tmp_path, split, task):
    root = write_yolo(tmp_path)
    cut(sorted((root / "images" / split).glob("*.jpg"))[1])
    refused(root, task, rf"{split}/1\d?\.jpg: must be a complete image, .* replace or remove")
    find_probe_data(root)  # which leaves it out with a line


def test_several_broken_images_are_named_in_one_line(tmp_path):
    root = write_yolo(tmp_path)
    for index in (3, 5, 17):
        cut(root / f"images/{'val' if index > 15 else 'train'}/{index}.jpg")
    refused(
        root,
        "detect",
        r"^3 of 24 .* broken \(.*train/3.jpg, .*train/5.jpg, .*val/17.jpg\)\. .*train/3.jpg: must",
    )


def test_images_of_a_dense_probe_may_be_cut(tmp_path):
    root = write_masks(tmp_path)
    cut(root / "images/train/3.jpg")
    assert len(find_labels(root, "dense").train) == 16
    refused(root, "segment", "train/3.jpg: must be a complete image")


def test_labelled_images_of_12_bits_in_16_are_called_nearly_black(tmp_path):
    write_flat(tmp_path)
    for path in tmp_path.glob("*.png"):
        gray = np.asarray(Image.open(path).convert("L")).astype(np.uint16)
        Image.fromarray(gray * 16).save(path)
    (warning,) = [w for w in find_labels(tmp_path, "detect").warnings if "nearly black" in w]
    assert warning.startswith("12 of 12 images are nearly black")
