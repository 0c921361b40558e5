"""Names that files spell in several ways: with accents in two forms, or with line breaks."""

import re
import unicodedata
from functools import partial
from pathlib import Path

import pytest
from helpers.datasets.label_changes import replaced
from helpers.datasets.labelled_folders import (
    images_of,
    write_class_folders,
    write_flat,
    write_listed,
    write_masks,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels

COMPOSED = unicodedata.normalize("NFC", "é")
DECOMPOSED = unicodedata.normalize("NFD", "é")


def renamed(root, accent, *patterns):
    """Put an accent before the names of files and folders."""
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            path.rename(path.with_name(accent + path.name))
    return root


def objects_of(root, task):
    return [(image.objects, image.labels) for image in images_of(find_labels(root, task))]


IN_TWO_WAYS = [
    (write_voc, "detect", "JPEGImages/*", "Annotations/*"),
    (write_yolo, "detect", "images/*/*", "labels/*/*"),
    (write_masks, "segment", "images/*/*", "masks/*/*"),
]


@pytest.mark.parametrize("accents", [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
@pytest.mark.parametrize(("write", "task", "images", "labels"), IN_TWO_WAYS)
def test_labels_find_their_images(tmp_path, accents, write, task, images, labels):
    expected = objects_of(write(tmp_path / "plain"), task)
    root = write(tmp_path / "accents")
    for path in root.glob("ImageSets/Main/*.txt"):
        names = path.read_text().split()
        path.write_text("\n".join(accents[1] + name for name in names))
    renamed(root, accents[0], images)
    renamed(root, accents[1], labels)
    assert objects_of(root, task) == expected


@pytest.mark.parametrize("accents", [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_lists_of_image_sets_find_their_files(tmp_path, accents):
    expected = objects_of(write_voc(tmp_path / "plain"), "detect")
    root = renamed(write_voc(tmp_path / "accents"), accents[0], "JPEGImages/*", "Annotations/*")
    for path in root.glob("ImageSets/Main/*.txt"):
        path.write_text("".join(f"{accents[1]}{name}\n" for name in path.read_text().split()))
    assert objects_of(root, "detect") == expected


def test_a_list_of_a_class_is_of_the_class_in_another_spelling(tmp_path):
    root = write_voc(tmp_path)
    replaced("Annotations/*.xml", "disc", f"{COMPOSED}disc")(root)
    (root / f"ImageSets/Main/{DECOMPOSED}disc_train.txt").touch()
    assert find_labels(root, "detect").classes == ["square", f"{COMPOSED}disc"]


def in_both_spellings(root, pattern):
    """Put an accent before names, in one spelling for even and in the other for odd numbers."""
    for path in sorted(root.glob(pattern)):
        number = int(re.findall("[0-9]+", path.stem)[0])
        accent = (COMPOSED, DECOMPOSED)[number % 2]
        path.rename(path.with_name(f"{accent}{number // 2}{path.suffix}"))


def objects_by_content(root):
    images = images_of(find_labels(root, "detect"))
    return {Path(image.path).read_bytes(): image.objects for image in images}


BOTH = [
    (partial(write_voc, num_images=24), "JPEGImages/*", "Annotations/*"),
    (write_yolo, "images/*/*", "labels/*/*"),
]


@pytest.mark.parametrize(("write", "images", "labels"), BOTH)
def test_of_two_spellings_next_to_each_other_the_exact_one_is_used(tmp_path, write, images, labels):
    expected = objects_by_content(write(tmp_path / "plain"))
    root = write(tmp_path / "both")
    in_both_spellings(root, images)
    in_both_spellings(root, labels)
    for path in root.glob("ImageSets/Main/*.txt"):
        numbers = [int(name.removeprefix("img_")) for name in path.read_text().split()]
        names = [f"{(COMPOSED, DECOMPOSED)[number % 2]}{number // 2}\n" for number in numbers]
        path.write_text("".join(names))
    assert objects_by_content(root) == expected


def test_a_coco_file_names_both_spellings(tmp_path):
    names = [f"a/{accent}{index}.png" for index in range(6) for accent in (COMPOSED, DECOMPOSED)]
    write_listed(tmp_path, names, names)
    assert {image.path for image in images_of(find_labels(tmp_path, "detect"))} == {
        str(tmp_path / name) for name in names
    }


def test_names_of_a_coco_file_find_their_images(tmp_path):
    root = write_flat(tmp_path, names=f"{COMPOSED}/{COMPOSED}{{}}.png")
    folder = root / DECOMPOSED
    folder.mkdir()
    for path in [*root.glob("*.png")]:
        path.rename(folder / f"{DECOMPOSED}{path.name}")
    data = find_labels(root, "detect")
    assert len(images_of(data)) == 12
    assert not any("lead to no image" in warning for warning in data.warnings)


def test_texts_next_to_images_are_found(tmp_path):
    write = partial(write_yolo, num_train=16)
    for path in [*write(tmp_path).glob("labels/*/*")]:
        image = tmp_path / "images" / path.parent.name / path.with_suffix(".jpg").name
        image.rename(image.with_name(COMPOSED + image.name))
        path.rename(image.with_name(DECOMPOSED + path.stem + ".TXT"))
    data = find_labels(tmp_path, "detect")
    assert all(image.objects for image in images_of(data))


def test_folders_of_a_class_in_two_spellings_are_one_class(tmp_path):
    write_class_folders(tmp_path / "train")
    write_class_folders(tmp_path / "val")
    renamed(tmp_path, COMPOSED, "train/*")
    renamed(tmp_path, DECOMPOSED, "val/*")
    data = find_labels(tmp_path, "classify")
    assert data.classes == [f"{COMPOSED}disc", f"{COMPOSED}square"]
    assert data.count(data.val) == [10, 10]


def test_names_of_classes_are_one_line(tmp_path):
    def edit(content):
        for category, name in zip(content["categories"], ("disc\r\n", "red\nsquare"), strict=True):
            category["name"] = name

    assert find_labels(write_flat(tmp_path, edit), "detect").classes == ["red square", "disc"]
