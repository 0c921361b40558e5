import random
from pathlib import Path

import pytest
from helpers.package.checkout import ROOT
from mmengine.config import Config

from mmssprl.config.overrides import check_spelling
from mmssprl.config.reading import read_config_file
from mmssprl.config.run_checks import check_config
from mmssprl.config.shipped import shipped
from mmssprl.config.walk import check_parts
from mmssprl.errors import UserError

SPLITS = ("train", "val", "test")
SSPRL = shipped("configs/ssprl/ssprl_resnet18_scenes.py")
DETECTION = shipped("configs/benchmarks/detection/mask-rcnn_resnet18-fpn_scenes.py")
PIPELINE = "train_dataloader.dataset.pipeline.0"
ZOO = {"mmpretrain": 30, "mmdet": 30, "mmseg": 30}
"""Configs of each package that the sample takes."""
BROKEN = (
    *("'MOTChallengeMetrics'; did you mean 'MOTChallengeMetric'", "CocoMetric has no such field"),
    "models: no run reads it; did you mean 'model'",
    "there is no dataset",  # its module imports transformers, which may not be installed
)
"""What is wrong with the zoos' own configs: these runs fail, or do not what they say."""

MISTAKES = [
    ("model.type", "SSPLR", "'SSPLR'.*'SSPRL'.*custom_imports"),
    ("model.head.epsilom", 0.1, "'epsilon'"),
    ("model.backbone.dept", 18, "'depth'"),
    ("model.nonsense", 1, "SSPRL .*backbone, .*head, .*neck"),
    ("optim_wrapper.type", "OptimWraper", "optimizer wrapper .*'OptimWrapper'"),
    ("optim_wrapper.optimizer.type", "AdmW", "'AdmW'.*'AdamW'"),
    ("optim_wrapper.paramwise_cfg", {"norm_decay": 0}, "'norm_decay_mult'"),
    ("param_scheduler.0.type", "CosineLR", "parameter scheduler 'CosineLR'"),
    ("default_hooks.checkpoint.intervall", 3, "'interval'"),
    ("default_hooks.chekpoint", {"type": "CheckpointHook"}, "'checkpoint'"),
    ("default_hooks.mine", {"interval": 1}, "a type"),
    ("custom_hooks.0.type", "PretrainHok", "'PretrainHook'"),
    ("custom_hooks.0", {}, "a type"),
    ("custom_hooks.0", 3, "a dict, but got 3"),
    ("optim_wrapper.optimizer", [{}], "a dict"),
    (PIPELINE, {"a": 1}, "a type"),
    ("train_cfg.max_epoch", 3, "'max_epochs'"),
    ("train_dataloader.num_worker", 2, "'num_workers'"),
    ("train_dataloader.sampler.type", "Default", "data sampler 'Default'"),
    ("train_dataloader.collate_fn.type", "stack_view", "stack_views"),
    ("train_dataloader.dataset.pipelin", [], "'pipeline'"),
    (f"{PIPELINE}.type", "PyramidCorp", "'PyramidCrop'"),
    ("visualizer.vis_backends.0.type", "Local", "vis backend 'Local'"),
    ("env_cfg.mp_cfg.opencv_threads", 0, "'opencv_num_threads'"),
    ("env_cfg.deterministic", 1, "it has .*resource_limit"),
    ("randomness.sed", 0, "'seed'"),
    ("log_processor.window", 3, "'window_size'"),
    ("model", None, "add it"),
    ("model", 5, "a dict, but got 5"),
    ("model.head.epsilon", "a", "a number, but got 'a'"),
    ("model.head.alpha", "a", "a number or a list"),
    ("optim_wrapper.optimizer.lr", "a", "a number"),
    ("train_dataloader.pin_memory", [1], "True or False"),
    ("env_cfg.cudnn_benchmark", {}, "True or False"),
    ("train_cfg", {"max_epochs": 3}, "by_epoch"),
    ("default_scope", 3, "a string"),
    ("default_scope", "mmsprl", "'mmsprl'.*custom_imports"),
    ("resume", "no", "True or False"),
    ("sync_bn", True, "'torch', 'mmcv'"),
    ("train_cfg", None, "train_dataloader and optim_wrapper"),
    ("train_dataloader.dataset", None, "add it"),
]


def put(cfg, key, value):
    *path, last = key.split(".")
    node = cfg
    for part in path:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[int(last) if isinstance(node, list) else last] = value


@pytest.mark.parametrize(("key", "value", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_key_and_the_nearest_name(key, value, message):
    cfg = Config.fromfile(SSPRL)
    put(cfg, key, value)
    with pytest.raises(UserError, match=rf"^{cfg.filename}: {key}[\w.]*: .*{message}"):
        check_config(cfg, ("train", "val"))


def test_what_is_uncertain_is_left_to_the_builders():
    cfg = Config.fromfile(SSPRL)
    cfg.model.backbone.norm_cfg = {"type": "Mine", "any": 1}
    cfg.optim_wrapper.constructor = "Mine"
    cfg.optim_wrapper.paramwise_cfg = {"any": 1}
    cfg.test_dataloader = {"any": 1}
    cfg.env_cfg.dist_cfg.update(port=29501, init_method="env://")  # of slurm, and of torch
    cfg.custom_hooks = tuple(cfg.custom_hooks)
    cfg.default_hooks.mine = cfg.default_hooks.timer2 = {"type": "IterTimerHook"}
    check_parts(cfg, ("train", "val"))


@pytest.mark.full
def test_a_field_that_a_parent_of_mmdet_may_take_is_left_to_it():
    cfg = Config.fromfile(DETECTION)
    cfg.model.rpn_head.loss_cls.bg_cls_weight = 0.1
    check_parts(cfg, SPLITS)
    cfg.model.rpn_head.loss_cls.loss_weigth = 0.1
    with pytest.raises(UserError, match="rpn_head.loss_cls.loss_weigth: .*'loss_weight'"):
        check_parts(cfg, SPLITS)


@pytest.mark.full
def test_all_shipped_configs_pass():
    paths = [p for p in (ROOT / "configs").rglob("*.py") if p.parent.name != "_base_"]
    assert len(paths) > 30
    for path in paths:
        check_all(read_config_file(path))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("package", ZOO)
def test_configs_of_other_packages_pass(package):
    """All 2,047 were read once: what did not pass has no model, or is wrong as ``BROKEN`` says."""
    root = Path(pytest.importorskip(package).__file__).parent / ".mim/configs"
    paths = sorted(path for path in root.rglob("*.py") if "_base_" not in path.parts)
    assert len(paths) > 500
    read = 0
    for path in random.Random(0).sample(paths, ZOO[package]):
        try:
            cfg = read_config_file(path)
        except UserError:
            continue  # some name bases that their package does not hold
        if "model" not in cfg:
            continue  # a base outside of a folder _base_
        read += 1
        cfg.setdefault("default_scope", package)
        try:
            check_all(cfg)
        except UserError as error:
            assert any(known in str(error) for known in BROKEN), error  # noqa: PT017
    assert read > 0.8 * ZOO[package]


def check_all(cfg):
    check_spelling(cfg)
    check_parts(cfg, SPLITS)
