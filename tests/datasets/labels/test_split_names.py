"""Folders of splits that are not just called train, val and test."""

import pytest
from helpers.datasets.labelled_folders import refused, write_image, write_yolo

from mmssprl.datasets.labels import find_labels

CLASSES = ("disc", "square")


def write_classes(root, *places):
    """Write 8 images of each class to each place."""
    for number, place in enumerate(places):
        for index in range(16):
            title = CLASSES[index % 2]
            path = root / place.format(title=title) / f"{index}.jpg"
            write_image(path, 100 * number + index, (index % 2,))
    return root


@pytest.mark.parametrize(
    "places",
    [
        ("training_set/{title}", "test_set/{title}"),
        ("training_set/training_set/{title}", "test_set/test_set/{title}"),
        ("train/{title}", "my test images/{title}"),
        ("archive/cats-train/{title}", "archive/cats-val/{title}"),
    ],
)
def test_words_of_splits_count_if_all_folders_have_one(tmp_path, places):
    data = find_labels(write_classes(tmp_path, *places), "classify")
    assert data.classes == [*CLASSES]
    assert data.split.startswith("the data's own train and ")
    assert [len(data.train), len(data.val)] == [16, 16]
    assert all("train" in image.path.removeprefix(str(tmp_path)) for image in data.train)


def test_words_of_splits_count_for_objects(tmp_path):
    root = write_yolo(tmp_path)
    (root / "data.yaml").unlink()
    for kind in ("images", "labels"):
        for split in ("train", "val"):
            (root / kind / split).rename(root / kind / f"{split}_data")
    data = find_labels(root, "detect")
    assert data.split == "the data's own train and val"
    assert [len(data.train), len(data.val)] == [16, 8]


@pytest.mark.parametrize(
    "places",
    [
        ("train/{title}", "test/{title}", "unlabeled"),
        ("train/{title}", "dev/{title}"),
        ("seg_train/seg_train/{title}", "seg_test/seg_test/{title}", "seg_pred/seg_pred"),
        ("train/{title}", "val/{title}", "val_predictions/{title}"),
        ("training_set/{title}", "old_train/{title}", "test_set/{title}"),
    ],
)
def test_another_folder_next_to_splits_is_refused(tmp_path, places):
    names = ", ".join(sorted(place.split("/")[0] for place in places))
    match = f"folders of splits or of classes, but have {names}; name all splits train"
    refused(write_classes(tmp_path, *places), "classify", match)


@pytest.mark.parametrize("folders", [("day", "night"), ("train", "val")])
def test_classes_that_are_called_like_splits_stay_classes(tmp_path, folders):
    for index in range(24):
        title = ("train_station", "harbour", "bus")[index % 3]
        write_image(tmp_path / title / folders[index % 2] / f"{index}.jpg", index)
    assert find_labels(tmp_path, "classify").classes == ["bus", "harbour", "train_station"]


@pytest.mark.parametrize(
    ("titles", "inner"),
    [(("train_ride", "test_tube"), ""), (("bus", "train"), "2021"), (("bus", "train"), "images")],
)
def test_classes_with_a_word_of_a_split_need_no_other_name(titles, inner, tmp_path):
    for index in range(24):
        write_image(tmp_path / titles[index % 2] / inner / f"{index}.jpg", index)
    data = find_labels(tmp_path, "classify")
    assert data.classes == sorted(titles)
    assert not any("class next to" in warning for warning in data.warnings)


def test_a_class_that_is_called_like_a_split_is_a_warning(tmp_path):
    data = find_labels(write_classes(tmp_path, "{title}", "test"), "classify")
    assert data.classes == ["disc", "square", "test"]
    assert "test is read as a class next to 2 others" in data.warnings[0]


def test_images_outside_of_the_only_split_are_not_used(tmp_path):
    root = write_yolo(tmp_path)
    (root / "data.yaml").write_text("train: images/train\nnames: [disc, square]\n")
    data = find_labels(root, "detect")
    assert data.split == "20% of 16 images held out, seed 0; 8 other images are not used"
    assert all("/images/train/" in image.path for image in data.images)


def test_images_of_a_split_without_folders_of_classes_are_counted(tmp_path):
    root = write_classes(tmp_path, "train/{title}", "val")
    data = find_labels(root, "classify")
    assert data.split.startswith("20% of each class of 16 images held out")
    rule = "of 32 images are in no folder of a class, for example val/0.jpg: they are not used"
    assert data.warnings[0].startswith(f"16 {rule}")
    plain = find_labels(write_classes(tmp_path / "plain", "train/{title}"), "classify")
    assert not any("in no folder" in warning for warning in plain.warnings)
