import pytest
from helpers.engine.toy_run import write_config
from mmengine.config import Config

from mmssprl.config.overrides import check_spelling, merge_options, unused_helpers
from mmssprl.config.shipped import shipped
from mmssprl.engine.launch import prepare_train_config
from mmssprl.errors import UserError
from mmssprl.pyramid import ViewLayout

SSPRL = shipped("configs/ssprl/ssprl_resnet18_scenes.py")
LINEAR = shipped("configs/benchmarks/classification/linear_resnet18_scenes.py")
DETECTION = shipped("configs/benchmarks/detection/mask-rcnn_resnet18-fpn_scenes.py")
VIEWS = "train_dataloader.dataset.pipeline.0.layout"

HELPERS = [
    (SSPRL, "max_epochs", "train_cfg.max_epochs"),
    (SSPRL, "base_lr", "optim_wrapper.optimizer.lr"),
    (SSPRL, "layout.num_small", "model.layout.num_small"),
    (DETECTION, "max_iters", "train_cfg.max_iters"),
]
MISSPELT = [
    ("optim_wraper.optimizer.lr", "set optim_wrapper.optimizer.lr instead"),
    ("max_epoch", "set train_cfg.max_epochs"),
    ("num_prototypes", "set model.head.num_prototypes"),
    ("nonsense", "look up the right key"),
    ("launcher", "changes nothing"),
    ("data_preprocessor.hue", "set model.data_preprocessor"),
    ("param_scheduler.T_max", "param_scheduler.T_max: .*correct the key"),
    ("param_scheduler.1.T_max", "param_scheduler.1.T_max: .*correct the key"),
    ("load_from.x", "load_from.x: .*correct the key"),
]
USED = [
    "work_dir",
    "auto_scale_lr.enable",
    "model.num_chunks",
    "optim_wrapper.clip_grad.max_norm",
    "model.backbone.norm_cfg.requires_grad",
    "default_hooks.mine.type",
    "env_cfg.resource_limit",
]


def value_of(cfg, key):
    for part in key.split("."):
        cfg = cfg[int(part)] if isinstance(cfg, list) else cfg[part]
    return cfg


@pytest.mark.parametrize(("config", "key", "meant"), HELPERS)
def test_a_helper_is_refused_with_the_key_that_works(config, key, meant):
    cfg = Config.fromfile(config)
    with pytest.raises(UserError, match=rf"{key.split('.')[0]} changes nothing.*set {meant}"):
        merge_options(cfg, {key: 1})
    assert cfg.to_dict() == Config.fromfile(config).to_dict()
    merge_options(cfg, {meant: 7})
    assert value_of(cfg, meant) == 7


@pytest.mark.parametrize(("key", "message"), MISSPELT)
def test_what_no_run_uses_is_refused(key, message):
    with pytest.raises(UserError, match=message):
        merge_options(Config.fromfile(SSPRL), {key: 1})


def test_fields_that_a_config_does_not_set_may_be_set():
    cfg = Config.fromfile(SSPRL)
    merge_options(cfg, dict.fromkeys(USED, 1))
    assert [value_of(cfg, key) for key in USED] == [1] * len(USED)


def test_a_name_in_a_file_that_is_almost_a_key_is_refused(tmp_path):
    config = write_config(tmp_path, "optim_wraper = dict()\n")
    with pytest.raises(UserError, match="toy.py: optim_wraper: .*'optim_wrapper'"):
        prepare_train_config(config, work_dir=tmp_path / "run")


def test_helpers_of_usual_names_pass():
    helpers = ["train_pipeline", "val_ann_file", "dataset_type", "backend_args", "tta_model"]
    helpers += ["data_preprocessor", "custom_imports", "launcher", "norm_cfg", "optimizer"]
    check_spelling(Config(dict.fromkeys(helpers, 1)))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("max_epochs = 51", "train_cfg.max_epochs=6 already"),
        ("layout = dict(num_small=6)", "model.layout already"),
        ("train_pipeline = []", "train_dataloader.dataset.pipeline already"),
        ("test_dataloader = dict(dataset=dict(pipeline=[]))\nval_pipeline = [1]", ""),
        ("tta_pipeline = []", ""),
        ("max_epochs = 51\ntrain_cfg = dict(max_epochs=max_epochs)", ""),
        ("max_epochs = 6", ""),
        ("max_epochs = 51\ntrain_cfg = dict(max_epochs=max_epochs // 2)", ""),
    ],
)
def test_a_helper_that_a_file_sets_after_its_base_is_reported(text, place, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(f"_base_ = [{str(SSPRL)!r}]\n{text}\n")
    lines = unused_helpers(Config.fromfile(file))
    assert len(lines) == (1 if place else 0)
    assert all(place in line for line in lines)


def test_classes_that_a_file_imports_pass(tmp_path):
    file = tmp_path / "new_style.py"
    file.write_text("from mmengine.visualization import Visualizer\n")
    cfg = Config.fromfile(file)
    assert isinstance(cfg.Visualizer, type)
    check_spelling(cfg)
    cfg.visualiser = {}
    with pytest.raises(UserError, match="new_style.py: visualiser: .*'visualizer'"):
        check_spelling(cfg)


def test_the_data_follow_the_layout_of_the_model():
    cfg = Config.fromfile(SSPRL)
    merge_options(cfg, {"model.layout.num_small": 6})
    assert value_of(cfg, VIEWS) == cfg.model.layout
    assert ViewLayout.build(value_of(cfg, VIEWS)).num_small == 6


def test_the_data_may_have_a_layout_of_their_own():
    cfg = Config.fromfile(SSPRL)
    merge_options(cfg, {"model.layout.num_small": 6})
    merge_options(cfg, {f"{VIEWS}.num_small": 4})
    assert (value_of(cfg, VIEWS).num_small, cfg.model.layout.num_small) == (4, 6)
