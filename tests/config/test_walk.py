"""Types and fields that nobody knows, found before anything is written, and none that are right."""

import random
from pathlib import Path

import pytest
from mmengine.config import Config

from mmssprl.config.overrides import check_spelling
from mmssprl.config.reading import read_config_file
from mmssprl.config.run_checks import check_config
from mmssprl.config.shipped import shipped
from mmssprl.config.walk import check_parts
from mmssprl.engine.launch import prepare_train_config
from mmssprl.errors import UserError

CONFIGS = Path(__file__).parents[2] / "configs"
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
    (
        "model.type",
        "SSPLR",
        r"there is no model 'SSPLR'; did you mean 'SSPRL'\? Otherwise name the",
    ),
    ("model.head.type", "SinkhornHed", r"there is no model .*did you mean 'SinkhornHead'\?"),
    ("model.head.epsilom", 0.1, r"SinkhornHead has no such field; did you mean 'epsilon'\?$"),
    ("model.backbone.dept", 18, r"ResNet has no such field; did you mean 'depth'\?$"),
    ("model.nonsense", 1, r"SSPRL has no such field; it has backbone, .*head, .*neck"),
    ("optim_wrapper.type", "OptimWraper", r"no optimizer wrapper .*did you mean 'OptimWrapper'\?"),
    ("optim_wrapper.optimizer.type", "AdmW", r"there is no optimizer 'AdmW'; did you mean 'AdamW'"),
    ("optim_wrapper.clip_grads", {}, r"OptimWrapper has no such field; did you mean 'clip_grad'\?"),
    ("optim_wrapper.paramwise_cfg", {"norm_decay": 0}, r"did you mean 'norm_decay_mult'\?"),
    (
        "param_scheduler.0.type",
        "CosineLR",
        r"no parameter scheduler 'CosineLR'; did you mean",
    ),
    ("param_scheduler.0.Tmax", 3, r"CosineAnnealingLR has no such field; did you mean 'T_max'\?$"),
    ("default_hooks.checkpoint.intervall", 3, r"Hook has no such field; did you mean 'interval'\?"),
    ("custom_hooks.0.type", "PretrainHok", r"no hook 'PretrainHok'; did you mean 'PretrainHook'\?"),
    ("custom_hooks.0", {}, r"it must have a type, but it has none; add it\.$"),
    ("optim_wrapper.optimizer", [{}], r"it must be a dict, but got \[\{\}\]; correct it\.$"),
    (PIPELINE, {"a": 1}, r"it must have a type, but it has none; add it\.$"),
    ("custom_hooks.0", 3, r"it must be a dict, but got 3; correct it\.$"),
    ("train_cfg.max_epoch", 3, r"EpochBasedTrainLoop has no such .*; did you mean 'max_epochs'\?$"),
    ("train_dataloader.num_worker", 2, r"DataLoader has no .*; did you mean 'num_workers'\?$"),
    ("train_dataloader.sampler.type", "Default", r"no data sampler 'Default'; did you mean 'Def"),
    ("train_dataloader.collate_fn.type", "stack_view", r"no function .* mean '.*stack_views'"),
    (f"{PIPELINE}.type", "PyramidCorp", r"no transform 'PyramidCorp'; did you mean 'PyramidCrop'"),
    (f"{PIPELINE}.layouts", {}, r"PyramidCrop has no such field; did you mean 'layout'\?$"),
    ("visualizer.vis_backends.0.type", "Local", r"there is no vis backend 'Local'; "),
    ("env_cfg.mp_cfg.opencv_threads", 0, r"did you mean 'opencv_num_threads'\?$"),
    ("randomness.sed", 0, r"set_random_seed has no such field; did you mean 'seed'\?$"),
    ("log_processor.window", 3, r"LogProcessor has no such field; did you mean 'window_size'\?$"),
    ("env_cfg.mp_cfg", 3, r"it must be a dict, but got 3; correct it\.$"),
    ("model", None, r"a run needs one, but the config sets none; add it\.$"),
    ("model.head.epsilon", "a", r"it must be a number, but got 'a'; correct it\.$"),
    ("model.head.variant", "mine", r"it must be 'paper' or 'released', but got 'mine'; correct"),
    ("model.head.alpha", ["a"], r"it must be a number or a list, each a number, but got \['a'\]"),
    ("model.data_preprocessor.blur_sigma", (1,), r"it must be a list of 2, each a number, but"),
    ("model.data_preprocessor", 3, r"it must be a dict or None, but got 3; correct it\.$"),
    ("optim_wrapper.optimizer.lr", "a", r"it must be a number, but got 'a'; correct it\.$"),
    ("train_dataloader.pin_memory", [1], r"it must be True or False, but got \[1\]; correct it"),
    ("env_cfg.cudnn_benchmark", {}, r"it must be True or False, but got \{\}; correct it\.$"),
    ("train_cfg", {"max_epochs": 3}, r"it must have a type or by_epoch, but it has neither; add"),
]
TOP_LEVEL = [
    ("default_scope", 3, r"it must be a string, but got 3; correct it\.$"),
    ("default_scope", "mmsprl", r"no types of the scope 'mmsprl'; did you mean 'mmssprl'\? Other"),
    ("default_scope", "json", r"no types of the scope 'json'; name the module that registers"),
    ("resume", "no", r"it must be True or False, but got 'no'; correct it\.$"),
    ("sync_bn", True, r"it must be one of \(None, 'torch', 'mmcv'\), but got True; correct it"),
    ("train_cfg", None, r"it is needed beside train_dataloader and optim_wrapper, but .*; add it"),
    ("val_dataloader", {}, ""),
    ("train_dataloader.dataset", None, r"a loader needs one, but the config sets none; add it"),
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
        check_parts(cfg, SPLITS)


@pytest.mark.parametrize(("key", "value", "message"), TOP_LEVEL)
def test_the_top_of_a_config(key, value, message):
    cfg = Config.fromfile(SSPRL)
    put(cfg, key, value)
    key = key.replace("val_dataloader", "val_cfg")  # of several that are needed the missing one
    with pytest.raises(UserError, match=rf"^{cfg.filename}: {key}: .*{message}"):
        check_config(cfg, ("train", "val"))


def test_a_default_hook_is_not_doubled_by_a_misspelt_name():
    cfg = Config.fromfile(SSPRL)
    cfg.default_hooks.timeer = cfg.default_hooks.pop("timer")
    with pytest.raises(UserError, match=r"hooks.timeer: it would run beside the .* 'timer'; name"):
        check_parts(cfg, SPLITS)
    cfg.default_hooks.timer = {"type": "IterTimerHook"}
    check_parts(cfg, SPLITS)


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="model.head.type: there is no model 'Hed'"):
        prepare_train_config(SSPRL, cfg_options={"model.head.type": "Hed"})
    assert list(tmp_path.iterdir()) == []


def test_what_is_uncertain_is_left_to_the_builders():
    cfg = Config.fromfile(SSPRL)
    cfg.model.backbone.norm_cfg = {"type": "Mine", "any": 1}
    cfg.optim_wrapper.constructor = "Mine"
    cfg.optim_wrapper.paramwise_cfg = {"any": 1}
    cfg.test_dataloader = {"any": 1}
    cfg.env_cfg.dist_cfg.update(port=29501, init_method="env://")  # of slurm, and of torch
    cfg.custom_hooks = tuple(cfg.custom_hooks)
    check_parts(cfg, ("train", "val"))


@pytest.mark.full
def test_a_field_that_a_parent_of_mmdet_may_take_is_left_to_it():
    cfg = Config.fromfile(DETECTION)
    cfg.model.rpn_head.loss_cls.bg_cls_weight = 0.1
    check_parts(cfg, SPLITS)
    cfg.model.rpn_head.loss_cls.loss_weigth = 0.1
    with pytest.raises(UserError, match="rpn_head.loss_cls.loss_weigth: .* mean 'loss_weight'"):
        check_parts(cfg, SPLITS)


@pytest.mark.full
def test_all_shipped_configs_pass():
    paths = [path for path in CONFIGS.rglob("*.py") if path.parent.name != "_base_"]
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
