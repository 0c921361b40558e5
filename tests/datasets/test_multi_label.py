import json
import shutil

import pytest
from helpers.datasets.image_folders import save
from helpers.features.probe_folders import write_voc
from mmengine.dataset import default_collate

from mmssprl.datasets.labels.voc import listed_classes
from mmssprl.registry import DATASETS

# Ids neither contiguous nor sorted; image 7 has no annotation, 3 a crowd, c.png two entries.
IMAGES = {9: "c.png", 3: "a.png", 7: "b.png", 20: "c.png"}
CATEGORIES = {90: "toothbrush", 1: "person", 44: "bottle", 2: "bicycle"}
COCO = {
    "images": [{"id": number, "file_name": name} for number, name in IMAGES.items()],
    "annotations": [
        {"image_id": image, "category_id": category, "iscrowd": int(image == 3)}
        for image, category in [(9, 90), (9, 1), (20, 90), (20, 44), (3, 44)]
    ],
    "categories": [{"id": number, "name": name} for number, name in CATEGORIES.items()],
}


@pytest.fixture
def root(tmp_path):
    for name in "abc":
        save(tmp_path / "images" / f"{name}.png", size=(8, 10))
    (tmp_path / "coco.json").write_text(json.dumps(COCO))
    return tmp_path


def build(root, **options):
    config = {"type": "CocoMultiLabel", "ann_file": "coco.json", "data_prefix": "images"}
    return DATASETS.build({**config, "data_root": str(root), **options})


def test_an_image_has_each_label_once_in_order(root):
    dataset = build(root)
    assert dataset.metainfo["classes"] == ("person", "bicycle", "bottle", "toothbrush")
    items = [dataset.get_data_info(i) for i in range(len(dataset))]
    assert [item["gt_label"] for item in items] == [[0, 2, 3], [2], []]
    names = [str(root / "images" / name) for name in ("c.png", "a.png", "b.png")]
    assert [item["img_path"] for item in items] == names
    assert [dataset.get_cat_ids(i) for i in range(3)] == [[0, 2, 3], [2], []]


def test_an_image_without_labels_passes_through_mmpretrain(root):
    pipeline = [{"type": "LoadImageFromFile"}, {"type": "PackInputs"}]
    batch = default_collate([build(root, pipeline=pipeline)[i] for i in range(3)])
    samples = batch["data_samples"]
    assert [sample.gt_label.tolist() for sample in samples] == [[0, 2, 3], [2], []]
    assert batch["inputs"].shape == (3, 3, 8, 10)


@pytest.fixture(scope="module")
def voc(tmp_path_factory):
    root = write_voc(tmp_path_factory.mktemp("voc"))
    for name in ("red", "green"):
        (root / f"ImageSets/Main/{name}_trainval.txt").write_text("")
    return root


def build_voc(root, **options):
    return DATASETS.build({"type": "VocMultiLabel", "data_root": str(root), **options})


class TestVocMultiLabel:
    def test_labels_of_a_split(self, voc):
        dataset = build_voc(voc, split="test")
        assert dataset.metainfo["classes"] == ("green", "red", "zebra")
        items = [dataset.get_data_info(i) for i in range(4)]
        assert [item["gt_label"] for item in items] == [[], [1], [0], [0, 1]]
        assert [item["gt_unknown"] for item in items] == [[1], [], [], []]
        scores = [item["gt_score"].tolist() for item in items]
        assert scores == [[0, -1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]
        assert items[0]["img_path"] == str(voc / "JPEGImages" / "000024.jpg")
        assert (len(dataset), len(build_voc(voc))) == (12, 24)
        dataset = build_voc(voc, split="test", classes=["red", "zebra", "green"])
        assert dataset.get_data_info(1)["gt_label"] == [0]

    def test_a_class_may_be_called_train(self):
        lists = ["train", "val", "trainval", "car_train", "car_val", "train_train", "train_val"]
        assert listed_classes(lists) == ["car", "train"]

    def test_an_object_of_an_unknown_class_is_refused(self, voc):
        match = r"000000.xml: objects must be of the 1 classes .*'red'"
        with pytest.raises(ValueError, match=match):
            build_voc(voc, classes=["green"])

    def test_a_missing_split_is_refused(self, voc):
        with pytest.raises(FileNotFoundError, match="no ann_file .*Main/val.txt"):
            build_voc(voc, split="val")

    def test_a_folder_without_lists_of_classes_is_refused(self, voc, tmp_path):
        left_out = shutil.ignore_patterns("*_trainval.txt")
        root = shutil.copytree(voc, tmp_path / "VOC2007", ignore=left_out)
        with pytest.raises(ValueError, match="of the 0 classes .* lists <class>_<split>.txt"):
            build_voc(root)
