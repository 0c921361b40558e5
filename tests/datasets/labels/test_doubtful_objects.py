"""Objects that tools write in another sense: twice, as crowds, to be ignored, or rotated."""

from functools import partial

import pytest
from helpers.datasets.label_changes import replaced
from helpers.datasets.labelled_folders import (
    images_of,
    mask_of,
    run_lengths_of,
    write_flat,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels

ROTATED = "<attributes><attribute><name>rotation</name><value>{}</value></attribute></attributes>"


def told(root, task, words):
    return [warning for warning in find_labels(root, task).warnings if words in warning]


def changed(change, step=1):
    """A COCO file with some annotations changed."""

    def edit(content):
        for annotation in content["annotations"][::step]:
            change(annotation)

    return partial(write_flat, edit=edit)


def twice(content):
    content["annotations"] += [{**each, "id": each["id"] + 99} for each in content["annotations"]]


def yolo_twice(root):
    replaced("labels/*/*.txt", r"(?s)(.+)", r"\1\1")(write_yolo(root))
    return root


@pytest.mark.parametrize(
    ("plain", "write"), [(write_flat, partial(write_flat, edit=twice)), (write_yolo, yolo_twice)]
)
def test_an_object_that_is_annotated_twice_is_used_once(tmp_path, plain, write):
    expected = find_labels(plain(tmp_path / "plain"), "detect")
    data = find_labels(write(tmp_path / "twice"), "detect")
    assert [image.objects for image in images_of(data)] == [
        image.objects for image in images_of(expected)
    ]
    (warning,) = [each for each in data.warnings if "repeat another one" in each]
    assert warning.startswith(f"{expected.num_boxes} objects repeat")


def test_equal_boxes_of_two_classes_are_two_objects(tmp_path):
    root = write_yolo(tmp_path)
    (root / "labels/train/0.txt").write_text("0 0.5 0.5 0.2 0.2\n1 0.5 0.5 0.2 0.2\n")
    assert not told(root, "detect", "repeat another one")


def test_equal_boxes_with_other_masks_are_two_objects(tmp_path):
    def edit(content):
        twice(content)
        for annotation in content["annotations"][16:]:
            x, y, width, height = annotation["bbox"]
            annotation["segmentation"] = [[x, y, x + width, y, x, y + height]]

    root = write_flat(tmp_path, edit)
    assert not told(root, "detect", "repeat another one")


def test_objects_without_a_place_may_be_several(tmp_path):
    replaced("Annotations/*.xml", r"<bndbox>.*?</bndbox>", "")(write_voc(tmp_path))
    replaced("Annotations/*.xml", r"(<object>.*</object>)", r"\1\1")(tmp_path)
    assert not told(tmp_path, "classify", "repeat another one")


def as_brush(annotation):
    """Write an object as CVAT writes a mask of its brush."""
    shape = {9: 0, 4: 1}[annotation["category_id"]]
    mask = mask_of(annotation["image_id"], shape)
    annotation.update(segmentation=run_lengths_of(mask), iscrowd=1)


@pytest.mark.parametrize("task", ["detect", "segment"])
def test_many_crowds_are_a_warning(tmp_path, task):
    root = changed(as_brush, 2)(tmp_path)
    (warning,) = told(root, task, "marked as crowds")
    assert warning.startswith("8 of 16 objects are marked as crowds")
    assert not told(root, "classify", "marked as crowds")


def test_a_crowd_among_many_objects_is_none(tmp_path):
    root = changed(as_brush, 99)(tmp_path, num=30)
    assert not told(root, "detect", "marked as crowds")


def test_objects_to_be_ignored_are_as_crowds(tmp_path):
    data = find_labels(changed(lambda a: a.update(ignore=1), 4)(tmp_path), "classify")
    assert sum(thing.is_crowd for thing in data.objects) == 4


def rotated_by(angle):
    attributes = {"occluded": False, "rotation": angle}
    return changed(lambda a: a.update(attributes=attributes, segmentation=[]))


@pytest.mark.parametrize("angle", [45.0, -30])
def test_rotated_boxes_of_coco_are_a_warning(tmp_path, angle):
    (warning,) = told(rotated_by(angle)(tmp_path), "detect", "boxes are rotated")
    assert warning.startswith("16 of 16 boxes are rotated, for example annotation 1 with [")


@pytest.mark.parametrize("angle", [0.0, 180, "", None, pytest.param(10**400, id="long")])
def test_boxes_that_no_angle_changes_are_not_warned_of(tmp_path, angle):
    assert not told(rotated_by(angle)(tmp_path), "detect", "boxes are rotated")


def test_rotated_boxes_with_their_polygons_are_right(tmp_path):
    root = changed(lambda a: a.update(attributes={"rotation": 45}))(tmp_path)
    assert not told(root, "detect", "boxes are rotated")


def test_rotated_boxes_of_voc_are_a_warning(tmp_path):
    root = write_voc(tmp_path)
    replaced("Annotations/img_000.xml", "</object>", ROTATED.format("12.5") + "</object>")(root)
    replaced("Annotations/img_001.xml", "</object>", ROTATED.format("0.0") + "</object>")(root)
    (warning,) = told(root, "detect", "boxes are rotated")
    assert warning.startswith("1 of 32 boxes are rotated, for example disc in Annotations/img_000")
