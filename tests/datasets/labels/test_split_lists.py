"""The data's own split: in lists next to any layout, and in folders of classes."""

import shutil
from pathlib import Path

import pytest
from helpers.datasets.labelled_folders import (
    images_of,
    refused,
    write_class_folders,
    write_flat,
    write_image,
    write_masks,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels


def without_split(write):
    """Write a layout of 24 images without its own split."""

    def write_plain(root):
        write(root)
        shutil.rmtree(root / "ImageSets", ignore_errors=True)
        for folder in [*root.rglob("train"), *root.rglob("val")]:
            folder.rename(folder.with_name(f"{folder.name}_part"))
        for path in root.glob("data.yaml"):
            path.write_text("names: [disc, square]\n")
        return root

    return write_plain


def write_lists(root, train, val, first=9, text="{}\n"):
    """List the first images by name as train, the others as val; return both sets of stems."""
    names = sorted(path for path in root.rglob("*.jp*g"))
    parts = (names[:first], names[first:])
    for list_name, part in zip((train, val), parts, strict=True):
        path = root / list_name
        path.parent.mkdir(parents=True, exist_ok=True)
        below = [str(name.relative_to(root).with_suffix("")) for name in part]
        path.write_text("".join(text.format(name) for name in below))
    return [{*map(str, part)} for part in parts]


def paths_of(images):
    return {image.path for image in images}


def paths(data):
    return [paths_of(data.train), paths_of(data.val)]


LISTS = [
    *(("train.txt", "val.txt"), ("train.txt", "test.txt"), ("train2017.txt", "val2017.txt")),
    *(("splits/train.txt", "splits/valid.txt"), ("ImageSets/train.txt", "ImageSets/val.txt")),
    ("ImageSets/Main/train.txt", "ImageSets/Main/valid.txt"),
]


@pytest.mark.parametrize("names", LISTS)
def test_lists_are_the_split(tmp_path, names):
    root = without_split(write_voc)(tmp_path)
    expected = write_lists(root, *names)
    data = find_labels(root, "detect")
    assert paths(data) == expected
    assert data.split == "the data's own train and val"


@pytest.mark.parametrize(
    ("write", "task"),
    [
        (write_yolo, "detect"),
        (write_masks, "segment"),
        (write_class_folders, "classify"),
    ],
)
@pytest.mark.parametrize("text", ["{}\n", "./{}\n", "/elsewhere/{}\n", "{} 1\n"])
def test_lists_are_the_split_of_each_layout(tmp_path, write, task, text):
    root = without_split(write)(tmp_path)
    expected = write_lists(root, "train.txt", "val.txt", text=text)
    assert paths(find_labels(root, task)) == expected


def test_lists_of_a_coco_file(tmp_path):
    root = write_flat(tmp_path)
    (root / "train.txt").write_text("".join(f"{i}.png\n" for i in range(7)))
    (root / "val.txt").write_text("8\n9\n")
    data = find_labels(root, "detect")
    assert [len(data.train), len(data.val)] == [7, 2]
    assert data.split == "the data's own train and val; 3 other images are not used"


def test_lists_of_darknet(tmp_path):
    root = without_split(write_yolo)(tmp_path)
    expected = write_lists(root, "mine.txt", "other.txt", text="data/{}.jpg\n")
    (root / "obj.data").write_text("classes=2\ntrain = data/mine.txt\nvalid = data/other.txt\n")
    assert paths(find_labels(root, "detect")) == expected


def test_lists_in_a_folder_around_the_data(tmp_path):
    root = without_split(write_voc)(tmp_path / "archive")
    expected = write_lists(root, "train.txt", "val.txt")
    assert paths(find_labels(tmp_path, "detect")) == expected


@pytest.mark.parametrize(
    ("names", "lines", "why"),
    [
        (("train.txt",), "img_000\n", "train.txt is not used: there is no list of the other split"),
        (("splits/val.txt",), "img_000\n", "splits/val.txt is not used: there is no list"),
        (("train.txt", "val.txt"), "other_1\n", "train.txt is not used: no image of the data is"),
    ],
)
def test_a_random_split_says_why_a_list_is_not_used(tmp_path, names, lines, why):
    root = without_split(write_voc)(tmp_path)
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(lines)
    assert f"20% of 24 images held out, seed 0; {why}" in find_labels(root, "detect").split


def test_a_missing_image_of_a_list_is_refused(tmp_path):
    root = without_split(write_voc)(tmp_path)
    write_lists(root, "train.txt", "val.txt")
    (root / "val.txt").write_text("img_020\nimg_99\n")
    refused(root, "detect", "val.txt: each line must name a labelled image .* 1 of 2 .*img_99")


@pytest.mark.parametrize("name", ["img_020 (1).jpg", "img_020 copy.jpg", "img_020 (1)"])
def test_a_copy_in_a_list_is_not_the_original(tmp_path, name):
    root = without_split(write_voc)(tmp_path)
    write_lists(root, "train.txt", "val.txt")
    (root / "val.txt").write_text(f"img_021\n{name}\n")
    refused(root, "detect", "val.txt: each line must name a labelled image .* 1 of 2 ")


def test_an_image_in_both_lists_is_refused(tmp_path):
    root = without_split(write_voc)(tmp_path)
    (root / "train.txt").write_text("img_000\nimg_001\nimg_002\n")
    (root / "val.txt").write_text("img_002\nimg_003\n")
    refused(root, "detect", "no image may be in train and in val, but 1 are, .*img_002.jpg")


def test_lists_that_differ_from_the_folders_are_warned_of(tmp_path):
    root = write_yolo(tmp_path, num_val=10)
    (root / "train.txt").write_text("images/train/0.jpg\nimages/val/20.jpg\n")
    (root / "val.txt").write_text("images/val/21.jpg\n")
    data = find_labels(root, "detect")
    assert [len(data.train), len(data.val)] == [16, 10]
    [warning] = data.warnings
    expected = "train.txt differ in 1 of 3, for example images/val/20.jpg; the split of the"
    assert expected in warning


def test_lists_that_agree_with_the_folders_are_not_warned_of(tmp_path):
    root = write_yolo(tmp_path, num_val=10)
    (root / "train.txt").write_text("".join(f"images/train/{i}.jpg\n" for i in range(16)))
    (root / "val.txt").write_text("".join(f"images/val/{i}.jpg\n" for i in range(16, 26)))
    assert find_labels(root, "detect").warnings == []


def test_two_pairs_of_lists_that_differ_are_warned_of(tmp_path):
    root = without_split(write_voc)(tmp_path)
    write_lists(root, "train.txt", "val.txt", 14)
    write_lists(root, "splits/train.txt", "splits/val.txt", 10)
    data = find_labels(root, "detect")
    assert any("splits/train.txt and train.txt differ in 4 of 24" in w for w in data.warnings)


def write_classes(root, where):
    """Write 12 images of each class to ``where``, with the split of a third as val."""
    for index in range(24):
        title = ("disc", "square")[index % 2]
        split = "valid" if index % 3 == 2 else "train"
        path = root / where.format(split=split, title=title) / f"{index}.jpg"
        write_image(path, index, (index % 2,))
    return root


def number_of(image):
    return int(Path(image.path).stem)


PLACES = ["{title}/{split}", "archive/{title}/{split}", "archive/{split}/{title}"]
PLACES += ["{split}/images/{title}", "a/b/{split}/{title}", "a/{title}/{split}/deep"]


@pytest.mark.parametrize("where", PLACES)
def test_folders_name_classes_next_to_splits_in_any_order(tmp_path, where):
    data = find_labels(write_classes(tmp_path, where), "classify")
    assert data.classes == ["disc", "square"]
    assert data.split == "the data's own train and val"
    assert {number_of(image) % 3 for image in data.train} == {0, 1}
    assert {number_of(image) % 3 for image in data.val} == {2}
    assert [image.label for image in data.val] == [number_of(image) % 2 for image in data.val]


def test_classes_in_another_folder(tmp_path):
    data = find_labels(write_class_folders(tmp_path / "archive"), "classify")
    assert (data.classes, len(images_of(data))) == (["disc", "square"], 20)


def test_folders_of_splits_in_some_classes_are_warned_of(tmp_path):
    root = write_classes(tmp_path, "{title}/{split}")
    for path in [*(root / "square").rglob("*.jpg")]:
        path.rename(root / "square" / path.name)
    data = find_labels(root, "classify")
    assert data.split.endswith("held out, seed 0")
    warning = "folders named train, val or test in folders of classes are not used: 12 images"
    assert warning in data.warnings[0]


def test_a_class_may_be_called_train(tmp_path):
    for index in range(12):
        write_image(tmp_path / f"road/{('train', 'car')[index % 2]}/{index}.jpg", index, (0,))
        write_image(tmp_path / f"water/{index}.jpg", index, (1,))
    data = find_labels(tmp_path, "classify")
    assert data.classes == ["road", "water"]
    assert not any("not used" in warning for warning in data.warnings)
