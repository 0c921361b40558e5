import shutil

import pytest
from helpers.datasets.labelled_folders import box_of, refused, shapes_of, write_image, write_yolo
from PIL import Image

from mmssprl.datasets.labels import find_labels


def objects_of_1(data):
    return next(image.objects for image in data.train if image.path.endswith("/1.jpg"))


def test_polygons_are_masks_with_boxes_around_them(tmp_path):
    data = find_labels(write_yolo(tmp_path, polygons=True), "detect")
    (thing,) = objects_of_1(data)
    x, y, width, height = box_of(1, 1)
    assert thing.box == pytest.approx((x, y, width, height))
    [polygon] = thing.segmentation
    assert polygon == pytest.approx([x, y, x + width, y, x + width, y + height, x, y + height])
    assert data.has_masks


def test_a_turned_photograph_is_measured_as_it_is_shown(tmp_path):
    root = write_yolo(tmp_path)
    path = root / "images" / "train" / "1.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(path).save(path, exif=exif)
    (root / "labels/train/1.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    (thing,) = objects_of_1(find_labels(root, "detect"))
    assert thing.box == pytest.approx((10, 12, 20, 24))


def test_folders_of_a_split_hold_images_and_labels(tmp_path):
    """As Roboflow writes them, whose data.yaml says ../train/images."""
    flat, root = write_yolo(tmp_path / "flat"), tmp_path / "export"
    for split, folder in (("train", "train"), ("val", "valid")):
        for kind in ("images", "labels"):
            shutil.copytree(flat / kind / split, root / folder / kind)
    paths = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
    (root / "data.yaml").write_text(f"{paths}nc: 2\nnames: ['disc', 'square']\n")
    data = find_labels(root, "detect")
    assert [len(data.train), len(data.val)] == [16, 8]


def test_texts_beside_the_images_with_classes_txt(tmp_path):
    for i in range(10):
        write_image(tmp_path / f"{i}.jpg", i)
        lines = [f"{shape} 0.5 0.5 0.2 0.2\n" for shape in shapes_of(i)]
        (tmp_path / f"{i}.txt").write_text("".join(lines))
    (tmp_path / "classes.txt").write_text("disc\nsquare\n")
    data = find_labels(tmp_path, "classify")
    assert (data.layout, data.classes) == ("YOLO", ["disc", "square"])
    assert [len(data.train), len(data.val)] == [8, 2]
    (tmp_path / "classes.txt").unlink()
    data = find_labels(tmp_path, "classify")
    assert data.classes == ["class 0", "class 1"]
    assert "have no names" in data.warnings[0]


def test_lists_of_images(tmp_path):
    root = write_yolo(tmp_path)
    (root / "train.txt").write_text("".join(f"data/images/train/{i}.jpg\n" for i in range(12)))
    (root / "val.txt").write_text("".join(f"./images/val/{i}.jpg\n" for i in range(16, 24)))
    (root / "data.yaml").write_text("train: train.txt\nval: val.txt\nnames: [disc, square]\n")
    data = find_labels(root, "detect")
    assert [len(data.train), len(data.val)] == [12, 8]
    assert data.split.endswith("; 4 other images are not used")
    (root / "train.txt").write_text("images/train/0.jpg\nimages/train/gone.jpg\n")
    refused(root, "detect", "train.txt: .* 1 of 2 have none, .*images/train/gone.jpg")


def test_one_folder_for_both_splits_is_divided(tmp_path):
    root = write_yolo(tmp_path, num_val=0)
    (root / "data.yaml").write_text("train: images/train\nval: images/train\nnames: [a, b]\n")
    assert find_labels(root, "detect").split == "20% of 16 images held out, seed 0"


def test_captions_beside_images_are_no_labels(tmp_path):
    for name in ("disc", "square"):
        for i in range(4):
            write_image(tmp_path / name / f"{i}.jpg", i)
            (tmp_path / name / f"{i}.txt").write_text(f"a photograph of a {name}\n")
    assert find_labels(tmp_path, "classify").layout == "a folder per class"


def test_a_class_far_beyond_those_that_have_no_name(tmp_path):
    root = write_yolo(tmp_path)
    (root / "data.yaml").unlink()
    (root / "labels/train/1.txt").write_text("9" * 20 + " 0.5 0.5 0.2 0.2\n")
    refused(root, "detect", "index of a class must be at most 100,000")
