"""Formats that are not read, and names that do not fit, are named with what to do."""

import json

import pytest
from helpers.datasets.labelled_folders import (
    refused,
    write_class_folders,
    write_image,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels

CVAT = '<annotations><version>1.1</version><image id="0" name="0.jpg"/></annotations>'
EXPORT = "export COCO, PASCAL VOC or YOLO"
IMAGE = "/data/upload/0.jpg"
STUDIO = [{"id": 1, "data": {"image": IMAGE}, "annotations": []}]
STUDIO_MIN = [{"image": IMAGE, "id": 1, "annotator": 1, "annotation_id": 2}]
VIA = {"_via_settings": {}, "_via_img_metadata": {}}
VIA_OLD = {"0.jpg9": {"filename": "0.jpg", "size": 9, "regions": []}}


@pytest.mark.parametrize("task", ["classify", "detect", "segment"])
@pytest.mark.parametrize(
    ("name", "content", "title", "remedy"),
    [
        ("photos/0.json", {"shapes": [], "imagePath": "0.jpg"}, "LabelMe's JSON", "labelme2coco"),
        ("all.json", STUDIO, "Label Studio's JSON", EXPORT),
        ("all.json", STUDIO_MIN, "Label Studio's JSON", EXPORT),
        ("all.json", VIA, r"the VGG Image Annotator's \(VIA\) JSON", "export its COCO"),
        ("all.json", VIA_OLD, r"the VGG Image Annotator's \(VIA\) JSON", "export its COCO"),
        ("all.json", [{"image": "0.jpg", "annotations": []}], "CreateML's JSON", EXPORT),
        ("all.json", [{"image_id": 1, "bbox": []}], "a list of COCO's annotations", "add the"),
        ("all.json", {"size": {}, "objects": []}, "Supervisely's JSON", EXPORT),
        ("all.json", {"classes": [], "labels": {}}, "FiftyOne's JSON", EXPORT),
        ("all.json", {"metainfo": {}, "data_list": []}, "OpenMMLab's list of data", "write COCO"),
        ("annotations.xml", CVAT, "CVAT's XML", EXPORT),
        ("labels.csv", "filename,class\n", "a CSV table", EXPORT),
    ],
)
def test_formats_that_are_not_read(tmp_path, task, name, content, title, remedy):
    for index in range(3):
        write_image(tmp_path / "photos" / f"{index}.jpg", index)
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text)
    suffix = name.partition(".")[2]
    match = rf"^{name}: {title} is not read, the first of 1 \.{suffix} files; .*{remedy}"
    refused(tmp_path, task, match)


def test_texts_of_other_names_are_named_with_an_image(tmp_path):
    for path in write_yolo(tmp_path).glob("labels/*/*.txt"):
        path.rename(path.with_name(f"1a2b3c4d-{path.name}"))
    match = "in labels/ for images/ or next to it, but labels/train/1a2b3c4d-0.txt has no image"
    refused(tmp_path, "detect", f"{match}, and the most similar image is images/.*; rename or")


def test_texts_in_another_folder_are_named_with_an_image(tmp_path):
    (write_yolo(tmp_path) / "labels").rename(tmp_path / "drawn")
    refused(tmp_path, "detect", "drawn/train/0.txt has no image, .* is images/train/0.jpg; rename")


def test_images_of_other_formats_in_folders_of_classes_are_counted(tmp_path):
    write_class_folders(tmp_path)
    assert not any("not read" in warning for warning in find_labels(tmp_path, "classify").warnings)
    for name in ("disc/1.HEIC", "star/1.HEIC", "star/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"0")
    data = find_labels(tmp_path, "classify")
    rule = "2 files are images of formats that are not read, for example disc/1.HEIC: they are"
    assert data.classes == ["disc", "square"]
    assert data.warnings[0].startswith(rule)


@pytest.mark.parametrize("places", [("disc",), ("train/disc", "val/disc")])
def test_a_folder_of_one_class_is_named(tmp_path, places):
    for place in places:
        write_image(tmp_path / place / "1.jpg", 0)
    refused(tmp_path, "classify", "each of two classes or more, but .* has only disc; add other")
