import pytest
import torch
from helpers.features.probe_folders import write_voc
from mmengine.dataset import default_collate

from mmssprl.datasets.labels.voc import listed_classes
from mmssprl.datasets.multi_label import target
from mmssprl.registry import DATASETS


@pytest.fixture
def root(tmp_path):
    root = write_voc(tmp_path)
    for name in ("red", "green"):
        (root / f"ImageSets/Main/{name}_trainval.txt").write_text("")
    return root


def build(root, **options):
    return DATASETS.build({"type": "VocMultiLabel", "data_root": str(root), **options})


def test_targets_have_three_states():
    assert target(4, [2], [0]).tolist() == [-1, 0, 1, 0]
    # A class with an easy and a difficult object is present.
    assert target(2, [1], [1]).tolist() == [0, 1]


class TestVocMultiLabel:
    def test_labels_of_a_split(self, root):
        dataset = build(root, split="test")
        assert dataset.metainfo["classes"] == ("green", "red", "zebra")
        items = [dataset.get_data_info(i) for i in range(4)]
        assert [item["gt_label"] for item in items] == [[], [1], [0], [0, 1]]
        assert [item["gt_unknown"] for item in items] == [[1], [], [], []]
        scores = [item["gt_score"].tolist() for item in items]
        assert scores == [[0, -1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]
        assert items[0]["img_path"] == str(root / "JPEGImages" / "000024.jpg")
        assert (len(dataset), len(build(root))) == (12, 24)

    def test_scores_reach_the_model(self, root):
        pipeline = [{"type": "LoadImageFromFile"}, {"type": "PackInputs"}]
        batch = default_collate([build(root, split="test", pipeline=pipeline)[0]])
        assert torch.equal(batch["data_samples"][0].gt_score, torch.tensor([0.0, -1.0, 0.0]))

    def test_classes_can_be_given(self, root):
        dataset = build(root, split="test", classes=["red", "zebra", "green"])
        assert dataset.get_data_info(1)["gt_label"] == [0]

    def test_an_unknown_class_is_named(self, root):
        with pytest.raises(
            ValueError, match=r"000000.xml: objects must be of the 1 classes .*'red'"
        ):
            build(root, classes=["green"])

    def test_the_class_train_is_told_from_the_set_train(self):
        lists = ["train", "val", "trainval", "car_train", "car_val", "train_train", "train_val"]
        assert listed_classes(lists) == ["car", "train"]

    def test_what_is_missing_is_named(self, root):
        with pytest.raises(FileNotFoundError, match=r"no .*Main/val.txt"):
            build(root, split="val")
        for path in (root / "ImageSets/Main").glob("*_trainval.txt"):
            path.unlink()
        with pytest.raises(ValueError, match="which name the classes, but holds none"):
            build(root)
