import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import write_class_folders, write_coco, write_weights
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmpretrain.datasets import BaseDataset

from mmssprl.config.shipped import shipped
from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning.config import (
    backbone_config,
    finetune_config,
    set_label_files,
    set_numbers,
)
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.options import FinetuneOptions
from mmssprl.finetuning.plan import labels_for, rows_of_crowded
from mmssprl.finetuning.start import finetune
from mmssprl.finetuning.tasks import TASKS
from mmssprl.models import TimmBackbone
from mmssprl.weights import build_backbone, write_description


def steps_of(cfg, split):
    return {step.type: step for step in cfg[f"{split}_dataloader"].dataset.pipeline}


def test_the_config_of_a_detector(tmp_path, monkeypatch):
    data = find_labels(write_coco(tmp_path / "data"), "detect")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    cfg, _ = finetune_config("random", data, "detect", FinetuneOptions(image_px=96, freeze=True))
    train = steps_of(cfg, "train")
    test = steps_of(cfg, "test")
    assert train["RandomResize"].scale == test["Resize"].scale == (160, 96)
    heads = cfg.model.roi_head
    assert (heads.bbox_head.num_classes, heads.mask_head.num_classes) == (2, 2)
    assert (cfg.model.backbone.frozen_stages, cfg.model.backbone.norm_eval) == (4, True)
    assert cfg.test_evaluator.metric == ["bbox", "segm"]


@pytest.mark.parametrize(("times", "is_told"), [(50, False), (51, True)])
def test_more_objects_than_a_detector_finds_are_reported(times, is_told, tmp_path):
    data = find_labels(write_coco(tmp_path / "data"), "detect")
    two = next(image for image in data.train if len(image.objects) == 2)
    data.train.append(replace(two, objects=two.objects * times))
    cfg, _ = finetune_config("random", data, "detect", FinetuneOptions())
    told = ("at most 100 are found in an image", "1 image with more, up to 102; cut into tiles")
    rows = rows_of_crowded(data, cfg.model.test_cfg.rcnn.max_per_img)
    assert rows == ({"objects": told} if is_told else {})


@pytest.fixture(scope="module")
def segmentation(tmp_path_factory):
    """Labels of a segmentation, and its configs without a GPU and with one."""
    data = find_labels(write_coco(tmp_path_factory.mktemp("segmentation") / "data"), "segment")
    configs = []
    with pytest.MonkeyPatch.context() as patch:
        for num_gpus in (0, 1):
            patch.setattr("torch.cuda.device_count", lambda num=num_gpus: num)
            cfg, _ = finetune_config("random", data, "segment", FinetuneOptions(image_px=64))
            configs.append(cfg)
    return data, configs


def test_the_config_of_a_segmentation(segmentation):
    for num_gpus, cfg in enumerate(segmentation[1]):
        train = steps_of(cfg, "train")
        test = steps_of(cfg, "test")
        assert train["RandomResize"].scale == test["Resize"].scale == (256, 64)
        assert train["RandomCrop"].crop_size == cfg.model.data_preprocessor.size == (64, 64)
        heads = [cfg.model.decode_head, *filter(None, [cfg.model.auxiliary_head])]
        assert [head.num_classes for head in heads] == [3] * (1 + num_gpus)
        own = cfg.model.data_preprocessor  # ImageNet's, in RGB, of images that are read as BGR
        assert (own.mean, own.std) == ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])
        assert own.bgr_to_rgb


def test_labels_of_a_segmentation_are_read_by_its_pipeline(segmentation, tmp_path):
    data, [_, cfg] = segmentation
    write_labels(data, tmp_path / "labels", "segment")
    set_label_files(cfg, tmp_path / "labels")
    about = cfg.train_dataloader.dataset
    pipeline = about.pipeline[:2]  # which read the image and its labels
    dataset = BaseDataset(about.ann_file, data_prefix=about.data_prefix, pipeline=pipeline)
    assert {*np.unique(dataset[0]["gt_seg_map"])} == {0, 2}  # a disc


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    return find_labels(write_class_folders(tmp_path_factory.mktemp("labels") / "data"), "classify")


def test_a_network_of_timm_classifies_with_its_own_normalisation(labels, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(TimmBackbone("test_vit").state_dict(), "w.pth")
    weights = "timm/test_vit:w.pth"
    cfg, _ = finetune_config(weights, labels, "classify", FinetuneOptions())
    assert (cfg.model.backbone.model_name, cfg.model.head.in_channels) == ("test_vit", 64)
    assert cfg.model.data_preprocessor.mean == [127.5] * 3
    assert cfg.weights == f"timm/test_vit:{tmp_path}/w.pth"
    data = find_labels(write_coco(tmp_path / "boxes"), "detect")
    with pytest.raises(ValueError, match="support only ResNets, but the backbone is TimmBackbone"):
        finetune_config(weights, data, "detect", FinetuneOptions())


def test_a_network_of_a_function_classifies_with_its_own_normalisation(labels):
    name = "helpers.models.own_nets:with_record"
    cfg, rows = finetune_config(name, labels, "classify", FinetuneOptions())
    assert cfg.model.backbone.to_dict() == {"type": "ModuleBackbone", "network": name}
    assert cfg.model.data_preprocessor.mean == [51, 102, 153]
    assert rows["pixels"][1] == f"of {name}.pretrained_cfg"


def test_weights_that_fit_the_usual_backbone_bring_their_normalisation(labels, tmp_path):
    resnet = {"type": "ResNet", "depth": 18}
    own = {"mean": [1.0, 2.0, 3.0], "std": [4.0, 5.0, 6.0]}
    described = Config({"model": {"backbone": resnet, "data_preprocessor": own}})
    torch.save(build_backbone(described).state_dict(), tmp_path / "w.pth")
    write_description(tmp_path / "w.pth", described)
    for weights, expected in ((str(tmp_path / "w.pth"), 1.0), ("random", 123.675)):
        cfg, _ = finetune_config(weights, labels, "classify", FinetuneOptions())
        assert cfg.model.data_preprocessor.mean[0] == expected
    beside = finetune_config(
        "random", labels, "classify", FinetuneOptions(), str(tmp_path / "w.pth")
    )
    assert beside[0].model.data_preprocessor.mean == [1, 2, 3]


@pytest.fixture(scope="module")
def classification(labels, tmp_path_factory):
    """The config of a frozen narrow backbone, and its weights."""
    weights = str(write_weights(tmp_path_factory.mktemp("narrow") / "weights"))
    asked = FinetuneOptions(image_px=48, freeze=True)
    cfg, _ = finetune_config(weights, labels, "classify", asked)
    return cfg, weights


def test_the_backbone_follows_the_weights(classification):
    cfg, weights = classification
    head = cfg.model.head
    assert (cfg.model.frozen_backbone, cfg.model.backbone.base_channels) == (True, 8)
    assert (head.type, head.in_channels, head.num_classes) == ("LinearClsHead", 32, 2)
    assert cfg.weights == weights


def test_helpers_of_the_base_configs_are_left_out(classification):
    assert not {"base_lr", "of_one_label", "train_pipeline", "loader"} & set(
        classification[0].keys()
    )


def test_pipelines_follow_the_size_of_images(classification):
    cfg, _ = classification
    assert cfg.train_dataloader.dataset.pipeline[1].scale == 48
    for split in ("val", "test"):
        types = [step.type for step in cfg[f"{split}_dataloader"].dataset.pipeline]
        assert types[1:4] == ["mmssprl.CutEnds", "ResizeEdge", "CenterCrop"]
        assert steps_of(cfg, split)["ResizeEdge"].scale == 55
        assert steps_of(cfg, split)["CenterCrop"].crop_size == 48


def test_label_files_move(classification, labels, tmp_path):
    cfg, _ = classification
    for folder in (tmp_path / "first", tmp_path / "second"):
        set_label_files(cfg, folder)
    dataset = cfg.train_dataloader.dataset
    assert dataset.ann_file == str(tmp_path / "second" / "train.json")
    assert dataset.data_prefix == str(labels.root)
    assert cfg.test_dataloader.dataset.ann_file == str(tmp_path / "second" / "val.json")


def numbers(task="classify", weights="file.pth", num_images=100, num_gpus=0, **options):
    """What is put into a base config, by name."""
    cfg = Config.fromfile(shipped(TASKS[task].base_config(on_gpu=num_gpus > 0)))
    px, _ = set_numbers(cfg, weights, FinetuneOptions(**options), num_images, num_gpus)
    first = cfg.param_scheduler[0]
    last = cfg.param_scheduler[-1]
    return {
        "image_px": px,
        "batch_size": cfg.train_dataloader.batch_size,
        "epochs": cfg.train_cfg.max_epochs,
        "val_interval": cfg.train_cfg.val_interval,
        "num_steps": last.end,
        "lr": cfg.optim_wrapper.optimizer.lr,
        "head_lr": head_lr_of(cfg.optim_wrapper),
        "warmup_iters": first.end if len(cfg.param_scheduler) > 1 else 0,
    }


def head_lr_of(wrapper):
    """The rate of the head's weights in the optimizer that mmengine builds."""
    layer = torch.nn.Linear(1, 1)
    backbone = torch.nn.ModuleDict({"conv_head": torch.nn.Linear(1, 1)})  # as EfficientNet's
    head = torch.nn.ModuleDict({"fc": layer})
    model = torch.nn.ModuleDict({"backbone": backbone, "head": head})
    groups = build_optim_wrapper(model, wrapper).optimizer.param_groups
    rates = {id(value): group["lr"] for group in groups for value in group["params"]}
    assert rates[id(backbone["conv_head"].weight)] == wrapper.optimizer.lr
    return pytest.approx(rates[id(layer.weight)])


@pytest.mark.parametrize("config", ["finetune_schedule", "finetune_schedule_small"])
def test_the_protocol_s_head_has_its_own_rate(config):
    cfg = Config.fromfile(shipped(f"configs/_base_/{config}.py"))
    assert head_lr_of(cfg.optim_wrapper) == 0.1


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (
            {"num_images": 100},
            {"image_px": 128, "batch_size": 8, "epochs": 100, "num_steps": 1200}
            | {"val_interval": 20, "lr": 3e-4, "head_lr": 3e-3, "warmup_iters": 60},
        ),
        (
            {"task": "detect", "num_images": 100_000, "num_gpus": 4},
            {"image_px": 800, "batch_size": 4, "epochs": 12, "num_steps": 75_000}
            | {"warmup_iters": 500},
        ),
        (
            {"task": "segment", "epochs": 3, "batch_size": 5, "image_px": 64},
            {"epochs": 3, "batch_size": 5, "image_px": 64, "val_interval": 1},
        ),
        ({"weights": "random"}, {"lr": 1e-3, "head_lr": 3e-3}),
        ({"lr": 0.01}, {"lr": 0.01, "head_lr": 0.01}),
        ({"task": "segment", "lr": 1e-3}, {"head_lr": 1e-3}),
        ({"weights": "supervised"}, {"lr": 3e-4}),
        ({"freeze": True, "weights": "random"}, {"lr": 3e-3}),
        ({"epochs": 2}, {"warmup_iters": 0}),  # after one step LinearLR is below the full rate
        ({"epochs": 4}, {"warmup_iters": 2}),
    ],
    ids=str,
)
def test_numbers_follow_the_training_unless_asked(asked, chosen):
    found = numbers(**asked)
    assert chosen.items() <= found.items()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"image_px": 100_000}, "image_px .* 2048 pixels, but got 100000"),
        ({"image_px": 7}, "image_px must be at least 32"),
        ({"lr": math.nan}, "lr must be above 0, but got nan"),
        ({"val_share": 1.0}, "val_share must be .* but got 1"),
    ],
)
def test_mistakes_are_refused_before_any_image_is_read(options, match, tmp_path, monkeypatch):
    monkeypatch.setattr("mmssprl.datasets.labels.find.Files", None)  # reads the folder
    with pytest.raises(ValueError, match=match):
        finetune("random", "data", "classify", tmp_path / "run", **options)


@pytest.mark.parametrize(("name", "num"), [("\u540d\u7c90", 2), ("\u00e9t\u00e9", 0)])
def test_names_that_pictures_cannot_show_are_reported(name, num, tmp_path):
    (write_class_folders(tmp_path) / "disc").rename(tmp_path / name)
    labels = labels_for(str(tmp_path), "classify", FinetuneOptions())
    rule = f"pictures have no letter for {num} characters of the names of classes"
    told = [warning for warning in labels.warnings if warning.startswith(rule)]
    assert len(told) == (1 if num else 0)


THREE_STAGES = {"depth": 18, "num_stages": 3, "strides": (1, 2, 2), "dilations": (1, 1, 1)}


@pytest.mark.parametrize(
    ("task", "backbone", "described"),
    [
        ("classify", {"type": "TimmBackbone", "model_name": "test_vit"}, None),
        ("detect", {"depth": 34, "frozen_stages": 1, "strides": [1, 2, 2, 2]}, {"depth": 34}),
        ("segment", {"depth": 18, "base_channels": 8, "dilations": (1, 1, 2, 4)}, None),
        ("detect", THREE_STAGES, {**THREE_STAGES, "out_indices": (2,)}),
    ],
)
def test_a_description_has_network_and_numbers_of_a_training(task, backbone, described):
    scope = TASKS[task].scope
    own = {"mean": [1.0, 2.0, 3.0], "std": [4.0, 5.0, 6.0]}
    model = {"backbone": {"type": "ResNet", **backbone}, "data_preprocessor": {**own, "x": 1}}
    cfg = backbone_config(Config({"default_scope": scope, "model": model}))
    found = cfg.model
    assert found.backbone == {"type": "ResNet", **(described or backbone)}
    assert build_backbone(cfg)
    assert found.data_preprocessor == own
