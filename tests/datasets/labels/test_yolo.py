import shutil

import pytest
from helpers.datasets.labelled_folders import box_of, refused, shapes_of, write_image, write_yolo
from PIL import Image

from mmssprl.datasets.labels import find_labels


def boxes(image):
    return [pytest.approx(thing.box) for thing in image.objects]


def image_of(data, name):
    return next(image for image in data.train if image.path.endswith(f"/{name}"))


def first_text(root):
    return root / "labels" / "train" / "1.txt"


def test_polygons_are_masks_with_boxes_around_them(tmp_path):
    data = find_labels(write_yolo(tmp_path, polygons=True), "detect")
    image = image_of(data, "1.jpg")
    x, y, width, height = box_of(1, 1)
    assert boxes(image) == [box_of(1, 1)]
    [polygon] = image.objects[0].segmentation
    assert polygon == pytest.approx([x, y, x + width, y, x + width, y + height, x, y + height])
    assert data.has_masks


def test_a_turned_photograph_is_measured_as_it_is_shown(tmp_path):
    root = write_yolo(tmp_path)
    path = root / "images" / "train" / "1.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(path).save(path, exif=exif)
    first_text(root).write_text("1 0.5 0.5 0.5 0.5\n")
    data = find_labels(root, "detect")
    image = image_of(data, "1.jpg")
    assert boxes(image) == [(10, 12, 20, 24)]


def test_folders_of_a_split_hold_images_and_labels(tmp_path):
    """As Roboflow writes them, whose data.yaml says ../train/images."""
    flat = write_yolo(tmp_path / "flat")
    root = tmp_path / "export"
    for split, folder in (("train", "train"), ("val", "valid")):
        for kind in ("images", "labels"):
            shutil.copytree(flat / kind / split, root / folder / kind)
    (root / "data.yaml").write_text(
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
        "nc: 2\nnames: ['disc', 'square']\n"
    )
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


def test_images_without_a_text_show_nothing(tmp_path):
    root = write_yolo(tmp_path, num_val=10)
    first_text(root).unlink()
    data = find_labels(root, "detect")
    assert data.warnings == ["1 of 16 images of train have no annotation."]


def test_captions_beside_images_are_no_labels(tmp_path):
    for name in ("disc", "square"):
        for i in range(4):
            write_image(tmp_path / name / f"{i}.jpg", i)
            (tmp_path / name / f"{i}.txt").write_text(f"a photograph of a {name}\n")
    assert find_labels(tmp_path, "classify").layout == "a folder per class"


@pytest.mark.parametrize(
    "line",
    ["1 0.5 0.5 0.2", "1 0.5 0.5 0.2 1.2", "1 24 20 16 16", "1 0.5 nan 0.2 0.2", "0.5 0.5 0.5 1 1",
     "-1 0.5 0.5 0.2 0.2", "disc 0.5 0.5 0.2 0.2", "1 0 0 1 0 1 1 0", "1 0.5 0.5 0.2 0.2 0.9",
     "1 0.5 0.5 0.2 " + "9" * 4000],
)  # fmt: skip
def test_lines_that_are_no_objects(tmp_path, line):
    root = write_yolo(tmp_path)
    first_text(root).write_text(f"0 0.5 0.5 0.2 0.2\n\n{line}\n")
    refused(root, "detect", "labels/train/1.txt, line 3: must be .class x y width height")


def test_classes_that_have_no_name(tmp_path):
    root = write_yolo(tmp_path)
    first_text(root).write_text("7 0.5 0.5 0.2 0.2\n")
    match = "labels/train/1.txt: .* index of the 2 classes of data.yaml, but 7 is none"
    refused(root, "detect", match)
    (root / "data.yaml").unlink()
    first_text(root).write_text("9" * 20 + " 0.5 0.5 0.2 0.2\n")
    refused(root, "detect", "index of a class must be at most 100,000")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("names: [disc, square\n", "data.yaml: must be YAML, but"),
        ("names: " + "[" * 5000, "data.yaml: must be YAML, but"),
        ("names: !!python/object/apply:os.getcwd []\n", "data.yaml: must be YAML, but could not"),
        ("names: 2\n", "names must list the classes, .* but is int"),
        ("names: {1: disc, 2: square}\n", "names must list the classes, .* but is dict"),
        ("names: [[disc], [square]]\n", "names must list the classes"),
        ("names: [disc, disc]\n", "several are called 'disc'"),
        ("names: [disc, square]\nkpt_shape: [17, 3]\n", "data.yaml: poses are not read"),
        ("names: [disc, square]\ntrain: pictures\nval: images/val\n", "'pictures' has none there"),
    ],
)
def test_a_data_yaml_that_cannot_be_used(tmp_path, text, match):
    root = write_yolo(tmp_path)
    (root / "data.yaml").write_text(text)
    refused(root, "detect", match)


def test_texts_without_images_and_two_lists_of_classes(tmp_path):
    root = write_yolo(tmp_path)
    (root / "images" / "train" / "3.jpg").unlink()
    refused(root, "detect", "1 of 24 have none, for example .'labels/train/3.txt'")
    write_image(root / "images" / "train" / "3.jpg", 3)
    (root / "other.yaml").write_text("names: [cat]\n")
    refused(root, "detect", "one list of classes, .* data.yaml and other.yaml")
