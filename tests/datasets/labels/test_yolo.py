import shutil
from pathlib import Path

import pytest
from helpers.datasets.blocks import turned
from helpers.datasets.label_changes import both, file, replaced, unlink
from helpers.datasets.labelled_folders import shapes_of, write_image, write_yolo
from PIL import Image

from mmssprl.datasets.labels import find_labels


def test_boxes_of_a_turned_photograph(tmp_path):
    root = write_yolo(tmp_path)
    path = root / "images" / "train" / "1.jpg"
    _, exif = turned(Image.open(path), 6)
    Image.open(path).save(path, exif=exif)
    (root / "labels/train/1.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    images = find_labels(root, "detect").train
    [(thing,)] = [image.objects for image in images if image.path == str(path)]
    assert thing.box == pytest.approx((10, 12, 20, 24))


def test_texts_next_to_the_images_with_classes_txt(tmp_path):
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


def test_one_folder_for_both_splits_is_divided(tmp_path):
    root = write_yolo(tmp_path, num_val=0)
    (root / "data.yaml").write_text("train: images/train\nval: images/train\nnames: [a, b]\n")
    assert find_labels(root, "detect").split == "20% of 16 images held out, seed 0"


def test_captions_are_no_labels(tmp_path):
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


def in_upper_case(root):
    for name in ("images", "labels"):
        (root / name).rename(root / name.title())
    (root / "data.yaml").write_text("names: [disc, square]\n")


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
        *(in_upper_case, of_roboflow),
        # LabelImg writes the classes among the labels.
        both(unlink("data.yaml"), file("labels/classes.txt", b"disc\nsquare\n\n")),
        *(
            both(
                replaced("data.yaml", "path: .*", f"test: {elsewhere}test/images"),
                replaced("data.yaml", ": images", f": {elsewhere}images"),
            )
            for elsewhere in ("/content/foo/", "any name/", "../datasets/x/")
        ),
    ],
)
def test_folders_of_other_tools(tmp_path, change):
    root = write_yolo(tmp_path / "any name")
    plain = find_labels(root, "detect")
    change(root)
    data = find_labels(root, "detect")
    assert data.classes == plain.classes == ["disc", "square"]
    assert (data.split, plain.split) == ("the data's own train and val",) * 2
    for found, expected in ((data.train, plain.train), (data.val, plain.val)):
        pairs = [[(Path(x.path).name, x.objects) for x in images] for images in (found, expected)]
        assert pairs[0] == pairs[1]
