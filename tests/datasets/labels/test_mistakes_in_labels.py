import json
import os
import re
import shutil

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


def in_coco(edit, *splits):
    def spoil(root):
        for split in splits or ["train"]:
            path = root / split / "_annotations.coco.json"
            content = json.loads(path.read_text())
            edit(content)
            path.write_text(json.dumps(content))

    return spoil


def first(kind, **values):
    """Change the first entry of a list in a COCO file."""
    return in_coco(lambda content: content[kind][0].update(values))


def unlink(name):
    return lambda root: (root / name).unlink()


def file(name, content):
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
STAR = {"id": 11, "name": "star"}
MORE_CLASSES = in_coco(lambda content: content["categories"].append(STAR), "train", "valid")
FEWER_OBJECTS = in_coco(lambda content: content["annotations"].pop(0))
OUTSIDE = in_coco(lambda content: content["annotations"][3].update(bbox=[60, 5, 9, 9]))

NOT_UTF_8 = "a\nBär\nc\n".encode("latin-1")
LARGE = forge_sides(jpeg(), 9_000, 9_000)
MISTAKES = {
    (write_coco, "detect"): [
        (lambda root: write_voc(root / "more"), "has COCO and PASCAL VOC"),
        (lambda root: shutil.copy(root / FILE, root / "train/copy.json"), f"{FILE} and train/copy"),
        (file("notes.json", b'{"images": ['), "notes.json: must be JSON"),
        (unlink(IMAGE), "1 of 16 have none, .*'cam 0/Shot-04"),
        (first("annotations", category_id=7), "annotation 1 .*category_id=7"),
        (first("annotations", bbox=[]), f"{FILE}: .*annotation 1 has"),
        (first("annotations", bbox=None), "must have a box .*task classify"),
        (first("images", id=None), "entry of images must have id"),
        (first("categories", name="disk"), "differ in .*'disc'.*'disk'"),
        (in_coco(lambda all: all.update(images=[], annotations=[]), "valid"), "0 images of val"),
        (in_coco(lambda all: [a.update(bbox=[5, 5, 0, 0]) for a in all["annotations"]]),
         "16 images of train has a box with an area"),
        (unlink(FILE), "all are of the split val"),
    ],
    (write_coco, "classify"): [
        (in_coco(lambda all: all.update(annotations=[]), "valid"), "the 8 images of val has one"),
    ],
    (write_voc, "detect"): [
        (file("Annotations/img_003.xml", b"<a>"), "img_003.xml: must be XML"),
        (unlink("JPEGImages/img_005.jpg"), "1 of 24 .*Annotations/img_005"),
        (file("ImageSets/Main/val.txt", b"\n"), "0 images of val"),
        (file("ImageSets/Main/val.txt", b"img_000\nimg_020\n"), "but 1 are, .*img_000.jpg"),
        (no_boxes, r"img_001.xml: .* square has \[None"),
    ],
    (write_masks, "segment"): [
        (unlink("images/val/20.jpg"), "1 of 24 .*masks/val/20.png"),
        (file("classes.txt", b"a\nb\n"), "index of the 2 classes .* has 2"),
        (file("classes.txt", NOT_UTF_8), "classes.txt: must be text in UTF-8, but .* byte 3"),
        (black_and_white, r"all 24 hold \[0\] .*255"),
        (save("masks/train/3.png", lambda mask: mask.resize((24, 20), 0)), r"png: a .*\(24, 20\)"),
        (save("masks/train/3.png", lambda mask: mask.convert("RGB")), "3.png: .* mode is RGB"),
    ],
    (write_class_folders, "detect"): [(lambda root: None, "boxes; .* none among 20 files")],
    (write_class_folders, "segment"): [(lambda root: None, "none among 20 files")],
    (write_class_folders, "classify"): [
        (lambda root: write_image(root / "loose.jpg", 0), "1 lie beside the 2 folders, .* loose"),
        (file("disc/no 1.jpeg", b"text"), "no 1.jpeg: must be a complete image"),
        (pipe, "no 1.jpeg: .* no regular file"),
        (file("disc/no 1.jpeg", LARGE), "no 1.jpeg: .* 9,000 x 9,000 px, more than"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("write", "task", "spoil", "match"),
    [(*layout, *case) for layout, cases in MISTAKES.items() for case in cases],
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
    with pytest.raises(ValueError, match="seed must .* got -1"):
        find_labels(tmp_path, "classify", seed=-1)


class TestWarnings:
    def test_good_data_have_none_but_for_few_images(self, tmp_path):
        (warning,) = find_labels(write_coco(tmp_path), "detect").warnings
        assert "val has 8 images" in warning
        more = write_coco(tmp_path / "more", num_val=10)
        first("images", width=None, height=None)(more)  # unknown sizes are no mistake
        data = find_labels(more, "detect")
        assert (data.warnings, data.train[0].size) == ([], (48, 40))

    def test_classes_that_only_val_or_only_train_has(self, tmp_path):
        for index, name in enumerate(("a.jpg", "b.jpg")):
            write_image(tmp_path / "train" / "disc" / name, index, (0,))
            write_image(tmp_path / "val" / "square" / name, index, (1,))
        warnings = find_labels(tmp_path, "classify").warnings
        assert "disc (2 and 0), square (0 and 2)" in warnings[0]

    @pytest.mark.parametrize(
        ("task", "spoil", "warning"),
        [
            ("detect", MORE_CLASSES, r"star \(0 and 0\)"),
            ("detect", FEWER_OBJECTS, "1 of 16 .* no annotation"),
            ("classify", FEWER_OBJECTS, "1 of 16 .* no annotation"),
            ("detect", OUTSIDE, "1 boxes have no area"),
            ("detect", first("annotations", segmentation=[]), "some objects have no mask"),
        ],
    )
    def test_of_coco_files(self, tmp_path, task, spoil, warning):
        spoil(write_coco(tmp_path, num_val=10))
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


def test_a_file_of_another_kind_is_passed_over(tmp_path):
    write_coco(tmp_path)
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    assert find_labels(tmp_path, "detect").layout == "COCO"
    write_xml(tmp_path / "train/pictures/cam 0/Shot-04.v1.xml", 4)
    refused(tmp_path, "detect", "one layout")
