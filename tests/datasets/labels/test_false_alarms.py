"""Ordinary data with files next to the labels that say nothing about them, or odd orientations."""

import json

import numpy as np
import pytest
from PIL import Image

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.groups import version_of
from mmssprl.datasets.labels.label_maps import read_label_map

SIZE = (64, 48)  # of the stored pixels


def photographs(folder, num=12, suffix="jpg"):
    """Write images of noise, 000 and so on; return their stems."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    stems = [f"{index:03}" for index in range(num)]
    for stem in stems:
        pixels = rng.integers(0, 256, (*SIZE[::-1], 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[0x0112] = 6 if suffix == "tif" else 1
        Image.fromarray(pixels).save(folder / f"{stem}.{suffix}", exif=exif)
    return stems


def yolo(root, labels="0 0.5 0.5 0.2 0.2\n1 0.3 0.3 0.2 0.2\n", names="names: [a, b]\n"):
    """Write YOLO data with images and texts next to each other."""
    for stem in photographs(root):
        (root / f"{stem}.txt").write_text(labels)
    (root / "data.yaml").write_text(names)
    return root


@pytest.mark.parametrize("frame", ["shown", "stored"])
def test_label_images_of_turned_tiffs_are_those_of_their_pixels(frame, tmp_path):
    labels = np.zeros(SIZE[::-1], np.uint8)
    labels[:10, :20] = 1
    if frame == "shown":
        labels = np.rot90(labels, -1)  # EXIF 6: a quarter clockwise
    (tmp_path / "masks").mkdir()
    for stem in photographs(tmp_path / "images", suffix="tif"):
        Image.fromarray(labels).save(tmp_path / f"masks/{stem}.png")
    (tmp_path / "classes.txt").write_text("background\nthing\n")
    data = find_labels(tmp_path, "segment")
    shown = read_label_map(data.train[0])
    assert shown.shape == (64, 48)
    assert shown[:20, -10:].all()
    assert shown.sum() == 200
    is_warned = any("of the stored pixels" in warning for warning in data.warnings)
    assert is_warned is (frame == "stored")


def test_boxes_of_turned_tiffs_are_those_of_the_shown_image(tmp_path):
    stems = photographs(tmp_path / "images", suffix="tif")
    images = [
        {"id": index, "file_name": f"{stem}.tif", "width": 48, "height": 64}
        for index, stem in enumerate(stems)
    ]
    boxes = [
        {"id": index, "image_id": index, "category_id": 1, "bbox": [5, 10, 20, 30], "iscrowd": 0}
        for index in range(len(stems))
    ]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "thing"}]}
    (tmp_path / "all.json").write_text(json.dumps(content))
    data = find_labels(tmp_path, "detect")
    assert {image.size for image in data.train} == {(48, 64)}
    assert {image.objects[0].box for image in data.train} == {(5, 10, 20, 30)}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00binary", b"0" * 20_000])
def test_a_file_of_weights_named_data_is_no_setting_of_darknet(content, tmp_path):
    root = yolo(tmp_path / "data")
    (root / "model.onnx.data").write_bytes(content)
    assert find_labels(root, "detect").num_boxes == 24


def test_texts_of_images_named_test_are_no_lists_of_a_split(tmp_path):
    root = yolo(tmp_path / "data")
    for index, path in enumerate(sorted(root.glob("*.jpg"))):
        path.with_suffix(".txt").rename(root / f"test{index}.txt")
        path.rename(root / f"test{index}.jpg")
    data = find_labels(root, "detect")
    assert data.split == "20% of 12 images held out, seed 0"


def test_a_name_with_a_hash_or_a_colon_is_a_class(tmp_path):
    root = yolo(tmp_path / "data", names="train: .\n")
    (root / "classes.txt").write_text("#1 screw\nM4:long\n")
    assert find_labels(root, "detect").classes == ["#1 screw", "M4:long"]


def test_an_empty_list_of_label_studio_says_nothing(tmp_path):
    root = yolo(tmp_path / "data")
    (root / "notes.json").write_text('{"categories": []}')
    assert find_labels(root, "detect").classes == ["a", "b"]


def test_a_number_of_classes_without_names_is_compared_with_the_labels(tmp_path):
    root = yolo(tmp_path / "data", names="train: .\nnc: 1\n")
    with pytest.raises(ValueError, match=r"of the 1 classes of nc of data.yaml, but got 1"):
        find_labels(root, "detect")


def test_a_list_that_is_longer_is_named_without_none(tmp_path):
    root = yolo(tmp_path / "data")
    (root / "classes.txt").write_text("a\nb\nc\n")
    with pytest.raises(ValueError, match="differ in 1 of 3, for example index 2: '' and 'c'"):
        find_labels(root, "detect")


def test_trainval_next_to_folders_of_splits_is_no_contradiction(tmp_path):
    root = tmp_path / "data"
    stems = {}
    for split, num in (("train", 8), ("val", 6), ("test", 6)):
        stems[split] = [f"{split}{index}" for index in range(num)]
        for index, stem in enumerate(stems[split]):
            path = root / split / "ab"[index % 2] / f"{stem}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(len(split) + 100 * index).integers(0, 256, (8, 8, 3))
            Image.fromarray(noise.astype(np.uint8)).save(path)

    (root / "splits").mkdir()
    stems["trainval"] = stems["train"] + stems["val"]
    for name, listed in stems.items():
        (root / f"splits/{name}.txt").write_text("\n".join(listed))

    data = find_labels(root, "classify")
    assert not [warning for warning in data.warnings if "trainval" in warning]


def test_versions_of_one_image_have_one_class():
    assert version_of("cat/1_jpg.rf.a0.jpg", 0) != version_of("dog/1_jpg.rf.b1.jpg", 1)
    assert version_of("cat/1_jpg.rf.a0.jpg", 0) == version_of("cat/1_jpg.rf.b1.jpg", 0)
    assert version_of("1_jpg.rf.a0.jpg") == version_of("1_jpg.rf.b1.jpg") == "1_jpg"


def test_lists_name_images_of_one_name_by_their_paths(tmp_path):
    root = tmp_path / "data"
    for kind in "abc":
        photographs(root / kind)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.jpg"))
    (root / "train.txt").write_text("\n".join(names[::2]))
    (root / "val.txt").write_text("\n".join(names[1::2]))
    data = find_labels(root, "classify")
    assert [str(root / name) for name in names[::2]] == sorted(each.path for each in data.train)
