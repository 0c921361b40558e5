import pytest
from helpers.datasets.labelled_folders import write_class_folders, write_coco, write_weights

from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning.config import (
    check_options,
    make_config,
    require_package,
    set_label_files,
    task_of,
)
from mmssprl.finetuning.options import FinetuneOptions


@pytest.fixture
def labels(tmp_path):
    return find_labels(write_class_folders(tmp_path / "data"), "classify")


def test_the_backbone_is_that_of_the_config_beside_the_weights(labels, tmp_path):
    weights = write_weights(tmp_path / "weights")
    cfg, _ = make_config(str(weights), labels, "classify", FinetuneOptions(image_px=48))
    assert cfg.model.backbone.base_channels == 8
    assert cfg.model.head.in_channels == 32
    assert cfg.model.head.num_classes == 2
    assert cfg.model.head.type == "LinearClsHead"
    assert cfg.weights == str(weights)
    # Nothing is left over that only helped to write the base configs.
    assert not {"base_lr", "of_one_label", "train_pipeline", "loader"} & set(cfg.keys())
    assert cfg.train_dataloader.dataset.pipeline[1].scale == 48
    assert cfg.val_dataloader.dataset.pipeline[1].scale == 55
    assert cfg.val_dataloader.dataset.pipeline[2].crop_size == 48


def test_weights_alone_need_the_name_of_their_backbone(labels, tmp_path):
    weights = write_weights(tmp_path / "weights")
    alone = tmp_path / "alone.pth"
    alone.write_bytes(weights.read_bytes())
    with pytest.raises(ValueError, match="alone.pth .* config"):
        make_config(str(alone), labels, "classify", FinetuneOptions())


def test_several_labels_have_a_sigmoid(tmp_path):
    data = find_labels(write_coco(tmp_path / "data"), "classify")
    cfg, _ = make_config("random", data, "classify", FinetuneOptions())
    assert cfg.model.head.type == "MultiLabelLinearClsHead"
    assert cfg.model.head.loss.type == "MultiLabelLoss"
    assert cfg.train_dataloader.dataset.type == "CocoMultiLabel"
    assert task_of(cfg).facts == {"single_label": False}


def test_label_files_move(labels, tmp_path):
    cfg, _ = make_config("random", labels, "classify", FinetuneOptions())
    for folder in (tmp_path / "first", tmp_path / "second"):
        set_label_files(cfg, folder)
    dataset = cfg.train_dataloader.dataset
    assert dataset.ann_file == str(tmp_path / "second" / "train.json")
    assert dataset.data_prefix == str(labels.root)
    assert cfg.test_dataloader.dataset.ann_file == str(tmp_path / "second" / "val.json")


@pytest.mark.parametrize(
    ("weights", "options", "error", "match"),
    [
        ("gone.pth", {}, FileNotFoundError, "there is no gone.pth"),
        (__file__, {}, ValueError, r"test_config.py cannot be read"),
        ("random", {"backbone": "resnet19"}, ValueError, "must be one of .*'resnet19'"),
    ],
)
def test_mistakes_that_no_label_is_read_for(weights, options, error, match):
    with pytest.raises(error, match=match):
        check_options(weights, "classify", FinetuneOptions(**options))


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="task segment needs mmsegmentation.*pip install"):
        require_package("mmseg", "task segment")
    require_package("mmssprl", "task classify")
