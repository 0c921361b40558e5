import json

import pytest
from helpers.config.linear_config import write_linear
from helpers.datasets.labelled_folders import coco_content
from mmengine.config import Config
from mmengine.runner import Runner

from mmssprl.config import run_checks as checks
from mmssprl.config.run_checks import check_config, check_data, missing_package
from mmssprl.engine.launch import prepare_train_config


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_linear(tmp_path)


def check(config, task, **options):
    cfg = Config.fromfile(config)
    cfg.merge_from_dict(options)
    check_data(Runner.from_cfg(cfg), task)


class TestConfig:
    def test_a_good_config_passes(self, config):
        prepare_train_config(config)
        check(config, "train")
        check(config, "test")

    def test_a_missing_annotation_file(self, config):
        (config.parent / "coco/annotations/instances_val2014.json").unlink()
        message = "val_dataloader: ann_file .*instances_val2014.json; .*data_root"
        with pytest.raises(FileNotFoundError, match=message):
            prepare_train_config(config)
        assert not (config.parent / "run").exists()

    @pytest.fixture
    def wrapped(self, config):
        """A config, its data set, and the same data set without its annotation file."""
        cfg = Config.fromfile(config)
        whole = cfg.train_dataloader.dataset
        return cfg, whole, {**whole, "ann_file": "gone.json"}

    def test_a_repeated_data_set_is_checked_inside(self, wrapped):
        cfg, _, gone = wrapped
        cfg.train_dataloader.dataset = {"type": "RepeatDataset", "times": 2, "dataset": gone}
        with pytest.raises(FileNotFoundError, match="no coco/gone.json"):
            check_config(cfg, ("train",))

    def test_all_of_several_data_sets_are_checked(self, wrapped):
        cfg, whole, gone = wrapped
        cfg.train_dataloader.dataset = {"type": "ConcatDataset", "datasets": [whole, gone]}
        with pytest.raises(FileNotFoundError, match="no coco/gone.json"):
            check_config(cfg, ("train",))

    def test_the_roots_of_file_clients_are_left_to_them(self, wrapped):
        cfg, _, gone = wrapped
        cfg.train_dataloader.dataset = {**gone, "data_root": "s3://bucket/coco"}
        check_config(cfg, ("train",))

    def test_a_missing_package_is_named(self, monkeypatch):
        monkeypatch.setattr(checks.importlib.util, "find_spec", {"mmdet": "spec"}.get)
        found = {name: missing_package(name) for name in ("mmdet", "mmseg", "mmssprl")}
        assert found == {"mmdet": None, "mmseg": "mmsegmentation", "mmssprl": None}


class TestData:
    def test_an_image_that_is_listed_but_absent(self, config):
        (config.parent / "coco/train2014/3.jpg").unlink()
        with pytest.raises(FileNotFoundError, match=r"1 of 24 .*train2014/3.jpg"):
            check(config, "train")

    def test_an_empty_split(self, config):
        path = config.parent / "coco/annotations/instances_val2014.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "images": [], "annotations": []}))
        for task, split in (("train", "val"), ("test", "test")):
            with pytest.raises(ValueError, match=f"{split}_dataloader: .*no image.*filter_cfg"):
                check(config, task)

    def test_data_that_fill_no_batch(self, config):
        options = {"train_dataloader.batch_size": 32, "train_dataloader.drop_last": True}
        with pytest.raises(ValueError, match="24 samples .*train_dataloader.batch_size"):
            check(config, "train", **options)


@pytest.mark.full
class TestDetectionAndSegmentation:
    def test_categories_that_the_annotations_do_not_have(self, config):
        path = config.parent / "coco/annotations/instances_val2014.json"
        path.write_text(json.dumps(coco_content([f"{i}.jpg" for i in range(12)])))
        dataset = {"_delete_": True, "type": "mmdet.CocoDataset", "pipeline": []}
        dataset |= {"data_root": "coco", "data_prefix": {"img": "val2014/"}, "test_mode": True}
        dataset["ann_file"] = "annotations/instances_val2014.json"
        dataset["metainfo"] = {"classes": ("disc", "ring")}
        with pytest.raises(ValueError, match=r"val2014.json, .*1 of 2"):
            check(config, "test", **{"test_dataloader.dataset": dataset})

    def test_annotations_that_mmdet_would_take_without_a_word(self, config):
        path = config.parent / "coco/annotations/instances_train2014.json"
        path.write_text(path.read_text().replace('{"id": 1, "file_name"', '{"id": 0, "file_name"'))
        cfg = Config.fromfile(config)
        cfg.train_dataloader.dataset = {"type": "mmdet.CocoDataset", "ann_file": str(path)}
        with pytest.raises(ValueError, match=r"train_dataloader: .*different ids"):
            check_config(cfg, ["train"])
