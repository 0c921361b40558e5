"""Mistakes in labels are refused in one line, or warned of in one."""

import re
import shutil
from functools import partial

import pytest
from helpers.datasets.label_changes import (
    CROWDS,
    both,
    crowds_but_for,
    file,
    first,
    images,
    in_coco,
    replaced,
    unlink,
    values,
)
from helpers.datasets.labelled_folders import (
    every_entry_twice,
    refused,
    write_class_folders,
    write_coco,
    write_flat,
    write_image,
    write_masks,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels

NEAREST = "labels/train/0.txt, line 2: must be 'class x y width height'"
NAMES = b"names: [disc, square]\n"
MISTAKES = {
    (write_coco, "detect"): [
        (file("notes.json", b'{"images": ['), "notes.json: must be JSON"),
        (unlink("train/pictures/cam 0/Shot-04.v1.PNG"), "1 of 16 have none, .*'cam 0/Shot-04"),
        (first("annotations", category_id=7), "annotation 1 .*category_id=7"),
        (first("annotations", bbox=None, segmentation=None), "needs a box .*task classify"),
        (first("categories", name="disk"), "differ in .*'disc'.*'disk'"),
        (in_coco(lambda all: all.update(annotations=[]), "valid"), "the 8 images of val has one"),
        (in_coco(lambda all: [a.update(bbox=[5, 5, 0, 0]) for a in all["annotations"]]),
         "16 images of train has a box with an area"),
        (unlink("train/_annotations.coco.json"), "all are of the split val"),
    ],
    (write_coco, "dense"): [
        (replaced("*/*.json", r"\[\[", "[[99, 0, "),
         "24 of 24 images have a polygon .*PNG of 48 x 40 px one that reaches 99, "),
        (replaced("*/*.json", r"\[\[.*?\]\]", '{"size": [2, 96], "counts": [0, 192]}'),
         "one size, .* 48 x 40 px and 96 x 2 px; correct"),
        (replaced("*/*.json", *CROWDS), "have no masks for dense"),
        (replaced("*/*.json", r"\[\[.*?\]\]", "[[0, 0, 48, 0, 48, 40, 0, 40]]"),
         "have no masks for dense; .* other than whole images"),
    ],
    (partial(write_coco, num_train=1), "classify"): [(both(), "at least 2 .* train has 1")],
    (write_flat, "detect"): [
        (in_coco(lambda all: (every_entry_twice(all), all["images"][0].update(width=96))),
         r"0.png: the 2 entries .* \(48, 40\) and \(96"),
        (crowds_but_for(3), "more than crowds .*, but train has 1; label more"),
    ],
    (write_flat, "segment"): [
        (in_coco(lambda all: [item.update(segmentation=[[2, 4], [18, 4], [18, 20]])
                              for item in all["annotations"]]),
         "16 of 16 are lists of points, for example of "),
    ],
    (partial(write_flat, names="gone/{}.png"), "detect"): [
        (in_coco(lambda all: all["images"][1].update(file_name="other/0.png")),
         "other/0.png|12 of 12"),
    ],
    (write_voc, "classify"): [
        (replaced("Annotations/*.xml", "</name>", "</name><difficult>1</difficult>"),
         "the 16 images of train show only difficult objects, .* set difficult to 0"),
    ],
    (write_voc, "detect"): [
        (file("Annotations/img_003.xml", b"<a>"), "img_003.xml: must be XML"),
        (unlink("JPEGImages/img_005.jpg"), "1 of 24 .*Annotations/img_005"),
        (file("ImageSets/Main/val.txt", b"img_000\nimg_020\n"), "but 1 are, .*img_000.jpg"),
        (replaced("Annotations/img_001.xml", "xmin>", "left>"),
         r"img_001.xml: .* of square must be numbers, but are \[None"),
        (replaced("Annotations/*.xml", "</name>", "</name><difficult>1</difficult>"),
         "more than crowds .*, but train has 0"),
        *((replaced("Annotations/*.xml", "<annotation>", "<annotation><size><width>"
                    f"{width}</width><height>48</height></size>"), match)
          for width, match in (("40.0", "24 of 24 .* 40 x 48 px"), ("nan", "xml: width and"))),
        *((replaced("Annotations/img_003.xml", "<name>disc</name>", text),
           "img_003.xml: each object must have a name")
          for text in ("<name> </name>", "")),
    ],
    (write_yolo, "detect"): [
        (file("data.yaml", b"names: [disc, square\n"), "data.yaml: must be YAML, but"),
        (file("data.yaml", b"names: 2\n"), "names must be a list of classes .* but is '2'"),
        (file("data.yaml", b"names: [disc, ' ']\n"), "none of them empty, but is ..disc"),
        (file("data.yaml", b"names: {1: disc, 2: square}\n"),
         "names must be a list of classes .* but is .'1'"),
        (file("data.yaml", b"names: [disc, disc]\n"), "several are called 'disc'"),
        (file("data.yaml", NAMES + b"kpt_shape: [17, 3]\n"), "data.yaml: poses are not read"),
        (file("data.yaml", NAMES + b"train: pictures\nval: images/val\n"),
         "'pictures' has none;"),
        *((file("labels/train/1.txt", f"0 0.5 0.5 0.2 0.2\n\n{line}\n".encode()),
           "labels/train/1.txt, line 3: must be .class x y width height")
          for line in ("1 0.5 0.5 0.2", "1 0.5 0.5 0.2 1.2", "1 24 20 16 16", "1 0.5 nan 0.2 0.2",
                       "0.5 0.5 0.5 1 1", "-1 0.5 0.5 0.2 0.2", "disc 0.5 0.5 0.2 0.2",
                       "1 0 0 1 0 1 1 0", "9" * 20 + " 0.5 0.5 0.2 0.2",
                       "1 0.5 0.5 0.2 " + "9" * 4000)),
        (file("labels/train/1.txt", b"7 0.5 0.5 0.2 0.2\n"),
         "labels/train/1.txt: .* index of the 2 classes of data.yaml, but got 7"),
        (both(unlink("images/train/3.jpg"), file("logo.psd", b"0")),
         "1 of 24 have none, for example .'labels/train/3.txt'.; add the missing files"),
        (lambda root: shutil.copy(root / "images/train/3.jpg", root / "images/train/3.png"),
         "but 1 of 24 are of two, for example labels/train/3.txt of images/train/3.jpg and images"),
        (lambda root: (root / "images/train/3.jpg").rename(root / "images/train/3.heic"),
         "3.txt.*; images/train/3.heic is of a format that is not read: convert such to JPEG"),
        (file("other.yaml", b"names: [cat]\n"), "one list of classes, .* data.yaml and other.yaml"),
        (lambda root: write_flat(root / "more"), "has COCO and YOLO"),
        (both(unlink("data.yaml"), file("labels/classes.txt", b"disc\n\nsquare\n")),
         "labels/classes.txt: line 2 must name a class"),
        (both(file("train.txt", b"images/train/0.jpg\nimages/train/gone.jpg\n"),
              file("data.yaml", NAMES + b"train: train.txt\nval: images/val\n")),
         "train.txt: .* 1 of 2 have none, .*images/train/gone.jpg"),
        *((replaced("labels/*/*.txt", r"(?s).+", f"\n{line}\n"), NEAREST)
          for line in ("0 30 30 20 20", "0 0,5 0,5 0,2 0,2", "0,0.5,0.5,0.2,0.2",
                       "0,0.5,0.5,0.2,0.2,")),
    ],
    (write_yolo, "segment"): [(replaced("labels/*/*.txt", r"(?s).+", "\n0 9 9 9 9\n"), NEAREST)],
    (write_masks, "segment"): [
        (unlink("images/val/20.jpg"), "1 of 24 .*masks/val/20.png"),
        (file("classes.txt", b"a\nb\n"), "index of the 2 classes of classes.txt, .* 2;"),
        (file("classes.txt", b"a\nB\xe4r\nc\n"), "classes.txt must be text in UTF-8, but"),
        (values(0, 255, 255), r"all 24 hold \[0\] .*255"),
        (images("masks/train/3.png", lambda mask: mask.convert("RGB")), "3.png: .* mode is RGB"),
    ],
    (write_masks, "dense"): [  # which leaves unreadable images out, but not these
        (images("masks/train/3.png", lambda mask: mask.resize((24, 20), 0)), "24 x 20 px instead"),
    ],
    (partial(write_masks, classes=None), "segment"): [
        (values(0, 128, 128), "colours or levels of gray .* classes.txt"),
    ],
    (write_class_folders, "classify"): [
        # As in Tiny ImageNet, which lists the classes of val in a text.
        (lambda root: [shutil.move(root / name, root / new) for name, new in
                       (("disc", "train/disc"), ("square", "val/images"))],
         r"folders of the same classes, but share none: disc \(10 and 0\), images \(0 and 10\)"),
        (lambda root: write_image(root / "loose.jpg", 0), "1 are outside of the 2 .* loose"),
        (file("disc/no 1.jpeg", b"text"), "no 1.jpeg: must be a complete image"),
    ],
}  # fmt: skip


def every_mistake():
    found = []
    for (write, task), cases in MISTAKES.items():
        found += [(write, task, spoil, match) for spoil, match in cases]
    return found


@pytest.mark.parametrize(("write", "task", "spoil", "match"), every_mistake())
def test_mistakes_raise_one_line(tmp_path, write, task, spoil, match):
    spoil(write(tmp_path))
    refused(tmp_path, task, match)


def test_data_that_do_not_exist_are_refused(tmp_path):
    refused(tmp_path / "gone", "classify", "data must be a folder .* there is no .*gone")
    refused(tmp_path / "gone.json", "detect", "there is no .*gone.json; correct")


def test_a_text_is_no_file_of_labels(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    refused(tmp_path / "notes.txt", "detect", "notes.txt does not end in .json, .yaml or ")


def test_images_without_labels_are_refused(tmp_path):
    for i in range(3):
        write_image(tmp_path / "photos" / f"{i}.jpg", i)
    refused(tmp_path, "segment", "no labels for segment among 3 files")


def test_folders_next_to_splits_are_refused(tmp_path):
    for folder in ("train/disc", "train/square", "val/disc", "unlabeled/all"):
        write_image(tmp_path / folder / "1.jpg", 1)
    refused(tmp_path, "classify", "have train, unlabeled, val; .* move other folders away")


STAR = {"id": 11, "name": "star"}
MORE_CLASSES = in_coco(lambda content: content["categories"].append(STAR), "train", "valid")
NOT_IN_VAL = replaced("labels/val/*", r"(?m)^1 ", "0 ")
NO_AREA = replaced("Annotations/img_002.xml", "<xmax>20", "<xmax>0")
OUTSIDE = in_coco(lambda content: content["annotations"][3].update(bbox=[60, 5, 9, 9]))


def test_images_that_show_only_crowds_do_not_train(tmp_path):
    root = write_coco(tmp_path)
    crowds_but_for(0, 1)(root)
    data = find_labels(root, "detect")
    assert "14 of 16 images of train show only crowds: not trained on." in data.warnings
    assert "2 to train on and 8" in data.describe()

    replaced("valid/*.json", *CROWDS)(root)
    assert "val shows only crowds: it has no score." in find_labels(root, "detect").warnings


@pytest.mark.parametrize(
    ("write", "task", "spoil", "warning"),
    [
        (write_coco, "detect", MORE_CLASSES, r"star \(0 and 0\)"),
        (write_yolo, "detect", NOT_IN_VAL, r"square \(10 and 0\)"),
        (write_coco, "detect", OUTSIDE, "1 boxes have no area"),
        (write_coco, "detect", first("annotations", segmentation=[]), "some objects have no mask"),
        (write_voc, "detect", NO_AREA, "1 boxes have no area"),
        (write_yolo, "detect", unlink("labels/train/1.txt"), "^1 of 16 .* have no annotation"),
        (write_masks, "segment", unlink("masks/train/3.png"), "1 of 26 images have no label image"),
    ],
)
def test_one_mistake_is_one_warning(tmp_path, write, task, spoil, warning):
    spoil(write(tmp_path, num_val=10))
    (found,) = find_labels(tmp_path, task).warnings
    assert re.search(warning, found)


def test_a_box_without_area_is_still_a_label(tmp_path):
    OUTSIDE(write_coco(tmp_path, num_val=10))
    assert find_labels(tmp_path, "classify").warnings == []
