import shutil

import pytest
from helpers.datasets.label_changes import both, file, replaced, unlink
from helpers.datasets.labelled_folders import (
    box_of,
    images_of,
    refused,
    shapes_of,
    write_image,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels


def test_polygons_are_masks_with_boxes_around_them(tmp_path):
    data = find_labels(write_yolo(tmp_path, polygons=True), "detect")
    (thing,) = next(image.objects for image in data.train if image.path.endswith("/1.jpg"))
    x, y, width, height = box_of(1, 1)
    assert thing.box == pytest.approx((x, y, width, height))
    [polygon] = thing.segmentation
    assert polygon == pytest.approx([x, y, x + width, y, x + width, y + height, x, y + height])
    assert data.has_masks


def test_texts_beside_the_images_with_classes_txt(tmp_path):
    for i in range(10):
        write_image(tmp_path / f"{i}.jpg", i)
        lines = [f"{shape} 0.5 0.5 0.2 0.2\n" for shape in shapes_of(i)]
        (tmp_path / f"{i}.txt").write_text("".join(lines))
    (tmp_path / "classes.txt").write_text("disc\nsquare\n\n")
    data = find_labels(tmp_path, "classify")
    assert (data.layout, data.classes) == ("YOLO", ["disc", "square"])
    assert [len(data.train), len(data.val)] == [8, 2]
    (tmp_path / "classes.txt").unlink()
    data = find_labels(tmp_path, "classify")
    assert data.classes == ["class 0", "class 1"]
    assert "have no names" in data.warnings[0]


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


def test_many_images_without_an_object_come_first(tmp_path):
    root = write_yolo(tmp_path, num_train=4, num_val=4)
    for i in range(101):
        (root / "images" / "train" / f"-{i}.jpg").hardlink_to(root / "images/train/1.jpg")
        (root / "labels" / "train" / f"-{i}.txt").touch()
    assert find_labels(root, "detect").layout == "YOLO"


def of_roboflow(root):
    """Folders of a split that hold images and labels."""
    for split, folder in (("train", "train"), ("val", "valid")):
        for kind in ("images", "labels"):
            shutil.move(root / kind / split, root / folder / kind)
    paths = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
    (root / "data.yaml").write_text(f"{paths}nc: 2\nnames: ['disc', 'square']\n")


@pytest.mark.parametrize(
    "change",
    [
        of_roboflow,
        # LabelImg writes the classes among the labels.
        both(unlink("data.yaml"), file("labels/classes.txt", b"disc\nsquare\n\n")),
    ],
)
def test_folders_of_other_tools_are_read_as_they_are_meant(tmp_path, change):
    root = write_yolo(tmp_path / "any name")
    plain = find_labels(root, "detect")
    change(root)
    data = find_labels(root, "detect")
    assert data.classes == plain.classes == ["disc", "square"]
    assert (data.split, plain.split) == ("the data's own train and val",) * 2
    assert [x.objects for x in images_of(data)] == [x.objects for x in images_of(plain)]


NEAREST = "labels/train/0.txt, line 2: must be 'class x y width height'"


@pytest.mark.parametrize(
    "line",
    ["0 0.5 0.5 0.2 0.2 0.9", "0 30 30 20 20", "-1 0.5 0.5 0.1 0.1", "0 nan 0.5 0.2 0.2"]
    + ["0.5 0.5 0.5 0.2 0.2", "0 1.03 0.5 0.2 0.2", "0 0.5 0.5 0.2 0.2 0.9 7"],
)
def test_numbers_that_are_no_objects_are_no_other_layout(tmp_path, line):
    root = write_yolo(tmp_path)
    replaced("labels/*/*.txt", r"(?s).+", f"\n{line}\n")(root)
    for task in ("classify", "detect", "segment"):
        refused(root, task, NEAREST)


@pytest.mark.parametrize("names", ["[yes, no]", "{0: yes, 1: no}", "\n- yes\n- no"])
def test_names_are_text(tmp_path, names):
    root = write_yolo(tmp_path)
    (root / "data.yaml").write_text(f"names: {names}\n")
    assert find_labels(root, "detect").classes == ["yes", "no"]
