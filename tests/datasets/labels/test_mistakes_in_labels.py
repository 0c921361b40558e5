import json
import os
import re
import shutil

import numpy as np
import pytest
from helpers.datasets.labelled_folders import (
    refused,
    write_class_folders,
    write_coco,
    write_image,
    write_masks,
    write_voc,
    write_xml,
    write_yolo,
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


def in_text(name, old, new):
    return lambda root: (root / name).write_text((root / name).read_text().replace(old, new))


IMAGE = "train/pictures/cam 0/Shot-04.v1.PNG"
FILE = "train/_annotations.coco.json"
STAR = {"id": 11, "name": "star"}
MORE_CLASSES = in_coco(lambda content: content["categories"].append(STAR), "train", "valid")
FEWER_OBJECTS = in_coco(lambda content: content["annotations"].pop(0))
NO_LABELS = unlink("masks/train/3.png")
NONE_SHOWN = "^1 of 16 images of train have no annotation.$"
NO_MASK = first("annotations", segmentation=[])
NO_AREA = in_text("Annotations/img_002.xml", "<xmax>20", "<xmax>0")
OUTSIDE = in_coco(lambda content: content["annotations"][3].update(bbox=[60, 5, 9, 9]))

NAMES = b"names: [disc, square]\n"
NOT_UTF_8 = "a\nBär\nc\n".encode("latin-1")
MISTAKES = {
    (write_coco, "detect"): [
        (lambda root: write_voc(root / "more"), "has COCO and PASCAL VOC"),
        (lambda root: shutil.copy(root / FILE, root / "train/copy.json"), f"{FILE} and train/copy"),
        (file("notes.json", b'{"images": ['), "notes.json: must be JSON"),
        (unlink(IMAGE), "1 of 16 have none, .*'cam 0/Shot-04"),
        (first("annotations", category_id=7), "annotation 1 .*category_id=7"),
        (first("annotations", bbox=[]), f"{FILE}: .*annotation 1 has"),
        (first("annotations", bbox=None, segmentation=None), "must have a box .*task classify"),
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
        (in_text("Annotations/img_001.xml", "xmin>", "left>"),
         r"img_001.xml: .* square has \[None"),
    ],
    (write_yolo, "detect"): [
        (file("data.yaml", b"names: [disc, square\n"), "data.yaml: must be YAML, but"),
        (file("data.yaml", b"names: " + b"[" * 5000), "data.yaml: must be YAML, but"),
        (file("data.yaml", b"names: !!python/object/apply:os.getcwd []\n"),
         "data.yaml: names must list the classes, .* empty"),
        (file("data.yaml", b"names: 2\n"), "names must list the classes, .* but is '2'"),
        (file("data.yaml", b"names: [disc, ' ']\n"), "none of them empty, but is ..disc"),
        (file("data.yaml", b"names: {1: disc, 2: square}\n"),
         "names must list the classes, .* but is .'1'"),
        (file("data.yaml", b"names: [[disc], [square]]\n"), "names must list the classes"),
        (file("data.yaml", b"names: [disc, disc]\n"), "several are called 'disc'"),
        (file("data.yaml", NAMES + b"kpt_shape: [17, 3]\n"), "data.yaml: poses are not read"),
        (file("data.yaml", NAMES + b"train: pictures\nval: images/val\n"),
         "'pictures' has none there"),
        *((file("labels/train/1.txt", f"0 0.5 0.5 0.2 0.2\n\n{line}\n".encode()),
           "labels/train/1.txt, line 3: must be .class x y width height")
          for line in ("1 0.5 0.5 0.2", "1 0.5 0.5 0.2 1.2", "1 24 20 16 16", "1 0.5 nan 0.2 0.2",
                       "0.5 0.5 0.5 1 1", "-1 0.5 0.5 0.2 0.2", "disc 0.5 0.5 0.2 0.2",
                       "1 0 0 1 0 1 1 0", "1 0.5 0.5 0.2 0.2 0.9", "1 0.5 0.5 0.2 " + "9" * 4000)),
        (file("labels/train/1.txt", b"7 0.5 0.5 0.2 0.2\n"),
         "labels/train/1.txt: .* index of the 2 classes of data.yaml, but 7 is none"),
        (unlink("images/train/3.jpg"), "1 of 24 have none, for example .'labels/train/3.txt'"),
        (file("other.yaml", b"names: [cat]\n"), "one list of classes, .* data.yaml and other.yaml"),
    ],
    (write_masks, "segment"): [
        (unlink("images/val/20.jpg"), "1 of 24 .*masks/val/20.png"),
        (file("classes.txt", b"a\nb\n"), "index of the 2 classes .* has 2"),
        (file("classes.txt", NOT_UTF_8), "classes.txt must be text in UTF-8, but"),
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
    refused(
        tmp_path / "gone",
        "classify",
        "data must be a folder .* there is no .*gone",
    )
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
        ("write", "task", "spoil", "warning"),
        [
            (write_coco, "detect", MORE_CLASSES, r"star \(0 and 0\)"),
            (write_coco, "detect", FEWER_OBJECTS, NONE_SHOWN),
            (write_coco, "classify", FEWER_OBJECTS, NONE_SHOWN),
            (write_coco, "detect", OUTSIDE, "1 boxes have no area"),
            (write_coco, "detect", NO_MASK, "some objects have no mask"),
            (write_voc, "detect", NO_AREA, "1 boxes have no area"),
            (write_yolo, "detect", unlink("labels/train/1.txt"), NONE_SHOWN),
            (write_masks, "segment", NO_LABELS, "1 of 26 images have no label image"),
        ],
    )
    def test_of_one_mistake(self, tmp_path, write, task, spoil, warning):
        spoil(write(tmp_path, num_val=10))
        (found,) = find_labels(tmp_path, task).warnings
        assert re.search(warning, found)

    def test_a_box_without_area_still_tells_what_an_image_shows(self, tmp_path):
        first("annotations", bbox=[60, 5, 9, 9])(write_coco(tmp_path, num_val=10))
        assert find_labels(tmp_path, "classify").warnings == []


def test_a_file_of_another_kind_is_passed_over(tmp_path):
    write_coco(tmp_path)
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    assert find_labels(tmp_path, "detect").layout == "COCO"
    write_xml(tmp_path / "train/pictures/cam 0/Shot-04.v1.xml", 4)
    refused(tmp_path, "detect", "one layout")
