"""Which images train and validate: entries that are joined, crowds, splits, data by their file."""

import json
import shutil

import pytest
from helpers.datasets.labelled_folders import (
    images_of,
    refused,
    write_coco,
    write_flat,
    write_image,
    write_mask,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.labelled_images import split_of
from mmssprl.features import find_probe_data
from mmssprl.finetuning.label_files import write_labels


def entry_per_annotation(content):
    whole = {image["id"]: image for image in content["images"]}
    content["images"] = []
    for number, annotation in enumerate(content["annotations"]):
        content["images"].append({**whole[annotation["image_id"]], "id": number})
        annotation["image_id"] = number


def every_entry_twice(content):
    """As if two exports had been merged: equal objects under other ids."""
    num = len(content["images"])
    content["images"] += [{**each, "id": each["id"] + num} for each in content["images"]]
    content["annotations"] += [
        {**each, "id": each["id"] + 100, "image_id": each["image_id"] + num}
        for each in content["annotations"]
    ]


class TestEntries:
    @pytest.mark.parametrize("edit", [entry_per_annotation, every_entry_twice])
    @pytest.mark.parametrize("task", ["classify", "detect", "segment"])
    def test_of_one_image_are_joined(self, tmp_path, edit, task):
        data = find_labels(write_flat(tmp_path, edit), task)
        expected = find_labels(write_flat(tmp_path / "whole"), task)
        assert [x.objects for x in images_of(data)] == [x.objects for x in images_of(expected)]
        assert [x.labels for x in images_of(data)] == [x.labels for x in images_of(expected)]
        assert "of 12 have several entries" in data.warnings[0]

    def test_of_different_sizes_are_refused(self, tmp_path):
        def edit(content):
            every_entry_twice(content)
            content["images"][0]["width"] = 96

        refused(
            write_flat(tmp_path, edit), "detect", r"0.png: the 2 entries .* \(48, 40\) and \(96"
        )

    def test_in_train_and_val_are_refused(self, tmp_path):
        root = write_coco(tmp_path)
        shutil.copy(root / "train/_annotations.coco.json", root / "valid/_annotations.coco.json")
        shutil.rmtree(root / "valid/pictures")
        refused(root, "detect", "no image may be in train and in val, but 16 are")


def crowds_but_for(*numbers):
    def edit(content):
        for annotation in content["annotations"]:
            annotation["iscrowd"] = int(annotation["image_id"] not in numbers)

    return edit


class TestCrowds:
    @pytest.mark.parametrize("kept", [2, 5])
    def test_images_that_show_nothing_else_do_not_train(self, tmp_path, kept):
        root = write_coco(tmp_path)
        path = root / "train/_annotations.coco.json"
        content = json.loads(path.read_text())
        crowds_but_for(*range(kept))(content)
        path.write_text(json.dumps(content))
        data = find_labels(root, "detect")
        assert [len(data.train), len(data.val)] == [kept, 8]
        warning = f"{16 - kept} of 16 images of train show only crowds: not trained on."
        assert warning in data.warnings
        assert f"{kept} to train on and 8" in data.describe()
        write_labels(data, tmp_path / "labels", "detect")
        content = json.loads((tmp_path / "labels/train.json").read_text())
        assert len(content["images"]) == kept

    @pytest.mark.parametrize("kept", [(), (3,)])
    def test_too_few_others_are_refused(self, tmp_path, kept):
        root = write_flat(tmp_path, crowds_but_for(*kept))
        refused(root, "detect", "no crowd .*, but of 10 images of train . have one; label more")
        root = write_voc(tmp_path / "voc")
        for path in root.glob("Annotations/*.xml"):
            text = path.read_text().replace("</name>", "</name><difficult>1</difficult>")
            path.write_text(text)
        refused(root, "detect", "of 16 images of train 0 have one")

    def test_val_of_crowds_alone_has_no_score(self, tmp_path):
        root = write_coco(tmp_path)
        path = root / "valid/_annotations.coco.json"
        path.write_text(path.read_text().replace('"iscrowd": 0', '"iscrowd": 1'))
        data = find_labels(root, "detect")
        assert [len(data.train), len(data.val)] == [16, 8]
        assert data.warnings[-1] == "val shows only crowds: it has no score."


class TestDataByTheirFile:
    def test_coco(self, tmp_path):
        root = write_flat(tmp_path / "data")
        expected = find_labels(root, "detect")
        shutil.copy(root / "all.json", root / "second.json")
        write_yolo(root / "beside")
        refused(root, "detect", "has all.json and second.json")
        assert images_of(find_labels(root / "second.json", "detect")) == images_of(expected)
        assert find_probe_data(root / "second.json").labelled.root == root
        (root / "annotations").mkdir()
        (root / "second.json").rename(root / "annotations/second.json")
        data = find_labels(root / "annotations/second.json", "detect")
        assert images_of(data) == images_of(expected)

    @pytest.mark.parametrize("path", ["", "path: .\n", "path: '../data'\n", "path: /gone\n"])
    def test_yolo(self, tmp_path, path):
        root = write_yolo(tmp_path / "data")
        write_flat(root / "more")
        refused(root, "detect", "has COCO and YOLO")
        names = "names: [disc, square]\ntrain: images/train\nval: images/val\n"
        (root / "own.yaml").write_text(path + names)
        (root / "data.yaml").write_text("names: [a, b, c]\n")
        data = find_labels(root / "own.yaml", "detect")
        assert data.classes == ["disc", "square"]
        (tmp_path / "elsewhere").mkdir()
        shutil.move(root / "own.yaml", tmp_path / "elsewhere/data.yaml")
        if "../data" in path:
            data = find_labels(tmp_path / "elsewhere/data.yaml", "detect")
            assert (data.root, data.classes) == (root, ["disc", "square"])

    def test_another_file_and_none_are_told_apart(self, tmp_path):
        (tmp_path / "notes.txt").write_text("")
        refused(tmp_path / "notes.txt", "detect", "notes.txt does not end in .json, .yaml or ")
        refused(tmp_path / "gone.json", "detect", "there is no .*gone.json; correct")


@pytest.mark.parametrize(
    ("name", "split"),
    [("train", "train"), ("train2014", "train"), ("Valid", "val"), ("images/test", "test")]
    + [("train_station", None), ("contest", None), ("my_training_set", None), ("val_7", "val")]
    + [("train/images", "train"), ("testing/train_station", "test"), ("", None)],
)
def test_folders_are_splits_by_their_whole_name(name, split):
    assert split_of(name) == split


def test_folders_of_classes_are_no_splits(tmp_path):
    for folder in ("train_station", "test_tube"):
        for i in range(5):
            write_image(tmp_path / folder / f"{i}.jpg", i)
            write_mask(tmp_path / "unused" / f"{i}.png", i)
    shutil.rmtree(tmp_path / "unused")
    data = find_labels(tmp_path, "classify")
    assert data.classes == ["test_tube", "train_station"]
