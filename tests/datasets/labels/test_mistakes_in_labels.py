"""Each mistake in labels is told in one line, or warned of, before anything is trained."""

import json
import os
import re

import numpy as np
import pytest
from helpers.datasets.forged_images import forge_sides, jpeg
from helpers.datasets.labelled_folders import (
    refused,
    write_class_folders,
    write_coco,
    write_image,
    write_masks,
    write_voc,
    write_xml,
)
from PIL import Image

from mmssprl.datasets.labels import find_labels


def edit_coco(root, edit, *splits):
    for split in splits or ["train"]:
        path = root / split / "_annotations.coco.json"
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))


def in_coco(edit, *splits):
    return lambda root: edit_coco(root, edit, *splits)


def first(kind, **values):
    """Change the first entry of a list in a COCO file."""
    return in_coco(lambda content: content[kind][0].update(values))


def copy(name, other):
    return lambda root: (root / other).write_text((root / name).read_text())


def unlink(name):
    return lambda root: (root / name).unlink()


def text(name, content):
    return lambda root: (root / name).write_text(content)


def bytes_of(name, content):
    return lambda root: (root / name).write_bytes(content)


def save(name, edit):
    """Change a label image."""
    return lambda root: edit(Image.open(root / name)).save(root / name)


def pipe(root):
    (root / "disc/no 1.jpeg").unlink()
    os.mkfifo(root / "disc/no 1.jpeg")


def black_and_white(root):
    for path in root.glob("masks/*/*.png"):
        pixels = np.where(np.asarray(Image.open(path)) == 0, 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(path)


def no_boxes(root):
    path = root / "Annotations/img_001.xml"
    path.write_text(path.read_text().replace("<xmin>", "<left>").replace("</xmin>", "</left>"))


IMAGE = "train/pictures/cam 0/Shot-04.v1.PNG"
FILE = "train/_annotations.coco.json"


@pytest.mark.parametrize(
    ("write", "task", "spoil", "match"),
    [
        (write_class_folders, "detect", lambda root: None, "boxes; .* none among 20 files"),
        (write_class_folders, "segment", lambda root: None, "none among 20 files"),
        (write_coco, "detect", lambda root: write_voc(root / "more"), "has COCO and PASCAL VOC"),
        (
            write_class_folders,
            "classify",
            lambda root: write_image(root / "loose.jpg", 0),
            "1 lie beside the 2 folders, .* loose.jpg",
        ),
        (write_coco, "detect", copy(FILE, "train/copy.json"), f"{FILE} and train/copy.json"),
        (write_coco, "detect", text("notes.json", '{"images": ['), "notes.json: must be JSON"),
        (write_voc, "detect", text("Annotations/img_003.xml", "<a>"), "img_003.xml: must be XML"),
        (write_coco, "detect", unlink(IMAGE), "1 of 16 have none, .*'cam 0/Shot-04"),
        (write_voc, "detect", unlink("JPEGImages/img_005.jpg"), "1 of 24 .*Annotations/img_005"),
        (write_masks, "segment", unlink("images/val/20.jpg"), "1 of 24 .*masks/val/20.png"),
        (write_coco, "detect", first("annotations", category_id=7), "annotation 1 .*category_id=7"),
        (write_coco, "detect", first("annotations", bbox=[]), f"{FILE}: .*annotation 1 has"),
        (write_coco, "detect", first("images", id=None), "entry of images must have id"),
        (write_coco, "detect", first("categories", name="disk"), "differ in .*'disc'.*'disk'"),
        (write_masks, "segment", text("classes.txt", "a\nb\n"), "index of the 2 classes .* has 2"),
        (
            write_masks,
            "segment",
            bytes_of("classes.txt", "a\nBär\nc\n".encode("latin-1")),
            "classes.txt: must be text in UTF-8, but .* byte 3",
        ),
        (write_masks, "segment", black_and_white, r"all 24 hold \[0\] .*255"),
        (
            write_masks,
            "segment",
            save("masks/train/3.png", lambda image: image.resize((24, 20), 0)),
            r"\(24, 20\) and \(48, 40\)",
        ),
        (
            write_masks,
            "segment",
            save("masks/train/3.png", lambda image: image.convert("RGB")),
            "masks/train/3.png: .* mode is RGB",
        ),
        (write_voc, "detect", text("ImageSets/Main/val.txt", "\n"), "val.txt lists none"),
        (
            write_coco,
            "detect",
            in_coco(lambda content: content.update(images=[], annotations=[]), "valid"),
            "none of the 0 images of val",
        ),
        (
            write_coco,
            "classify",
            in_coco(lambda content: content.update(annotations=[]), "valid"),
            "none of the 8 images of val has one",
        ),
        (write_coco, "detect", unlink(FILE), "all are of the split val"),
        (
            write_class_folders,
            "classify",
            bytes_of("disc/no 1.jpeg", b"text"),
            "no 1.jpeg: must be an image",
        ),
        (write_class_folders, "classify", pipe, "no 1.jpeg: .* no regular file"),
        (
            write_class_folders,
            "classify",
            bytes_of("disc/no 1.jpeg", forge_sides(jpeg(), 9_000, 9_000)),
            "no 1.jpeg: .* 9,000 x 9,000 px, more than",
        ),
        (
            write_voc,
            "detect",
            text("ImageSets/Main/val.txt", "img_000\nimg_020\n"),
            "in val, but 1 are, .*img_000.jpg",
        ),
        (
            write_coco,
            "detect",
            in_coco(lambda content: content["annotations"][0].pop("bbox")),
            "must have a box .*--task classify",
        ),
        (write_voc, "detect", no_boxes, r"img_001.xml: .* square has \[None"),
        (
            write_coco,
            "detect",
            in_coco(lambda content: [a.update(bbox=[5, 5, 0, 0]) for a in content["annotations"]]),
            "16 images of train has a box with an area",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path, write, task, spoil, match):
    spoil(write(tmp_path))
    refused(tmp_path, task, match)


def test_no_folder_no_labels_and_too_few_images(tmp_path):
    refused(tmp_path / "gone", "classify", "must be an existing folder, .*gone")
    for i in range(3):
        write_image(tmp_path / "photos" / f"{i}.jpg", i)
    for task in ("classify", "detect", "segment"):
        refused(tmp_path, task, f"must hold labels for {task}: .* none among 3 files")
    refused(write_coco(tmp_path / "one", num_train=1), "classify", "at least 2 .* train has 1")
    for folder in ("train/disc", "train/square", "val/disc", "unlabeled/all"):
        write_image(tmp_path / "splits" / folder / "1.jpg", 1)
    refused(tmp_path / "splits", "classify", "train and val .* unlabeled/")


@pytest.mark.parametrize(("option", "value"), [("val_share", 1.5), ("seed", -1)])
def test_a_share_or_a_seed_out_of_range(tmp_path, option, value):
    with pytest.raises(ValueError, match=f"{option} must .* got {value}"):
        find_labels(tmp_path, "classify", **{option: value})


class TestWarnings:
    def test_good_data_have_none_but_for_few_images(self, tmp_path):
        (warning,) = find_labels(write_coco(tmp_path), "detect").warnings
        assert "val has 8 images" in warning
        assert find_labels(write_coco(tmp_path / "more", num_val=10), "detect").warnings == []

    def test_classes_that_only_val_or_only_train_has(self, tmp_path):
        for index, name in enumerate(("a.jpg", "b.jpg")):
            write_image(tmp_path / "train" / "disc" / name, index, (0,))
            write_image(tmp_path / "val" / "square" / name, index, (1,))
        warnings = find_labels(tmp_path, "classify").warnings
        assert "disc (2 and 0), square (0 and 2)" in warnings[0]

    @pytest.mark.parametrize(
        ("task", "edit", "splits", "warning"),
        [
            (
                "detect",
                lambda content: content["categories"].append({"id": 11, "name": "star"}),
                ("train", "valid"),
                r"star \(0 and 0\)",
            ),
            ("detect", lambda content: content["annotations"].pop(0), (), "1 of 16 .* not trained"),
            ("classify", lambda content: content["annotations"].pop(0), (), "1 of 16 .* show none"),
            (
                "detect",
                lambda content: content["annotations"][3].update(bbox=[60, 5, 9, 9]),
                (),
                "1 boxes have no area",
            ),
            (
                "detect",
                lambda content: content["annotations"][0].update(segmentation=[]),
                (),
                "1 of 34 objects have no mask",
            ),
        ],
    )
    def test_of_coco_files(self, tmp_path, task, edit, splits, warning):
        edit_coco(write_coco(tmp_path, num_val=10), edit, *splits)
        (found,) = find_labels(tmp_path, task).warnings
        assert re.search(warning, found)

    def test_a_box_without_area_still_tells_what_an_image_shows(self, tmp_path):
        first("annotations", bbox=[60, 5, 9, 9])(write_coco(tmp_path / "a", num_val=10))
        assert find_labels(tmp_path / "a", "classify").warnings == []
        write_voc(tmp_path / "b", num_images=26, num_val=10)
        path = tmp_path / "b/Annotations/img_002.xml"
        path.write_text(path.read_text().replace("<xmax>20", "<xmax>0"))
        (warning,) = find_labels(tmp_path / "b", "detect").warnings
        assert "1 boxes have no area" in warning

    def test_images_without_a_label_image(self, tmp_path):
        (write_masks(tmp_path, num_val=10) / "masks/train/3.png").unlink()
        (warning,) = find_labels(tmp_path, "segment").warnings
        assert "1 of 26 images have no label image" in warning


def test_unknown_sizes_are_no_mistake(tmp_path):
    first("images", width=None, height=None)(write_coco(tmp_path))
    assert find_labels(tmp_path, "detect").train[0].size == (48, 40)


def test_a_file_of_another_kind_is_passed_over(tmp_path):
    write_coco(tmp_path)
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    assert find_labels(tmp_path, "detect").layout == "COCO"
    write_xml(tmp_path / "train/pictures/cam 0/Shot-04.v1.xml", 4)
    refused(tmp_path, "detect", "one layout")
