"""Which images train and validate, what is warned of, and data by their file."""

import json
import re
import shutil

import pytest
from helpers.datasets.label_changes import (
    CROWDS,
    crowds_but_for,
    first,
    in_coco,
    replaced,
    unlink,
)
from helpers.datasets.labelled_folders import (
    images_of,
    write_coco,
    write_flat,
    write_image,
    write_masks,
    write_voc,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.labelled_images import split_of
from mmssprl.finetuning.label_files import write_labels
from mmssprl.probing import find_probe_data

STAR = {"id": 11, "name": "star"}
MORE_CLASSES = in_coco(lambda content: content["categories"].append(STAR), "train", "valid")
FEWER_OBJECTS = in_coco(lambda content: content["annotations"].pop(0))
NO_LABELS = unlink("masks/train/3.png")
NONE_SHOWN = "^1 of 16 images of train have no annotation.$"
NO_MASK = first("annotations", segmentation=[])
NO_AREA = replaced("Annotations/img_002.xml", "<xmax>20", "<xmax>0")
OUTSIDE = in_coco(lambda content: content["annotations"][3].update(bbox=[60, 5, 9, 9]))


@pytest.mark.parametrize("kept", [2, 5])
def test_images_that_show_only_crowds_do_not_train(tmp_path, kept):
    root = write_coco(tmp_path)
    crowds_but_for(*range(kept))(root)
    data = find_labels(root, "detect")
    assert [len(data.train), len(data.val)] == [kept, 8]
    warning = f"{16 - kept} of 16 images of train show only crowds: not trained on."
    assert warning in data.warnings
    assert f"{kept} to train on and 8" in data.describe()
    write_labels(data, tmp_path / "labels", "detect")
    content = json.loads((tmp_path / "labels/train.json").read_text())
    assert len(content["images"]) == kept
    shutil.rmtree(tmp_path / "labels")
    replaced("valid/*.json", *CROWDS)(root)
    assert "val shows only crowds: it has no score." in find_labels(root, "detect").warnings


class TestWarnings:
    def test_good_data_have_none_except_for_few_images(self, tmp_path):
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

    def test_a_box_without_area_is_still_a_label(self, tmp_path):
        first("annotations", bbox=[60, 5, 9, 9])(write_coco(tmp_path, num_val=10))
        assert find_labels(tmp_path, "classify").warnings == []


def test_other_files_are_ignored(tmp_path):
    write_coco(tmp_path)
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    assert find_labels(tmp_path, "detect").layout == "COCO"


class TestDataGivenByAFile:
    def test_coco(self, tmp_path):
        root = write_flat(tmp_path / "data")
        expected = find_labels(root, "detect")
        shutil.copy(root / "all.json", root / "second.json")
        write_yolo(root / "beside")
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


@pytest.mark.parametrize(
    ("name", "split"),
    [("train", "train"), ("train2014", "train"), ("Valid", "val"), ("images/test", "test")]
    + [("train_station", None), ("test_tube", None), ("my_training_set", None), ("val_7", "val")]
    + [("train/images", "train"), ("testing/train_station", "test"), ("", None)],
)
def test_folders_are_splits_by_their_whole_name(name, split):
    assert split_of(name) == split
