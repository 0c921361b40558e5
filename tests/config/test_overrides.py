"""``--cfg-options`` that would change nothing, and fields that no class has: one line each."""

import pytest
from mmengine.config import Config
from toy_run import write_config

from mmssprl.config import schedule_checks
from mmssprl.config.overrides import check_spelling, merge_options
from mmssprl.config.pretrain_checks import check_pretraining
from mmssprl.config.shipped import shipped
from mmssprl.engine.launch import prepare_test_config, prepare_train_config, run
from mmssprl.errors import UserError
from mmssprl.pyramid import ViewLayout
from mmssprl.timing.training import read_config

SSPRL = shipped("configs/ssprl/ssprl_resnet18_scenes.py")
LINEAR = shipped("configs/benchmarks/classification/linear_resnet18_scenes.py")
DETECTION = shipped("configs/benchmarks/detection/mask-rcnn_resnet18-fpn_scenes.py")
SEGMENTATION = shipped("configs/benchmarks/segmentation/fcn_resnet18-d8_scenes.py")
VIEWS = "train_dataloader.dataset.pipeline.0.layout"

HELPERS = [
    (SSPRL, "max_epochs", ["train_cfg.max_epochs"]),
    (SSPRL, "batch_size", ["train_dataloader.batch_size"]),
    (SSPRL, "base_lr", ["optim_wrapper.optimizer.lr"]),
    (SSPRL, "data_root", ["train_dataloader.dataset.data_root"]),
    (SSPRL, "layout.num_small", ["model.layout.num_small"]),
    (SSPRL, "layout", ["model.layout"]),
    (LINEAR, "lr", ["optim_wrapper.optimizer.lr"]),
    (DETECTION, "max_iters", ["train_cfg.max_iters"]),
]
MISSPELT = [
    ("optim_wraper.optimizer.lr", r"optim_wrapper.optimizer.lr instead"),
    ("max_epoch", r"\(the config has no such key\); set train_cfg.max_epochs instead"),
    ("num_prototypes", r"\(the config has no such key\); set model.head.num_prototypes instead"),
    ("nonsense", r"\(the config has no such key\); see the config"),
    ("launcher", r"changes nothing: .* give --launcher\.$"),
    ("custom_imports", r"changes nothing: it is read with the file; write it there\.$"),
    ("data_preprocessor.hue", r"no run reads 'data_preprocessor'.*; set model.data_preprocessor"),
    ("model.layout.image_pxx", r"did you mean model.layout.image_px\?$"),
    ("param_scheduler.T_max", r"--cfg-options param_scheduler.T_max: .*; correct the key"),
    ("param_scheduler.1.T_max", r"--cfg-options param_scheduler.1.T_max: .* exceeds the length"),
    ("load_from.x", r"--cfg-options load_from.x: .* cannot inherit .*; correct the key"),
    ("model.data_preprocessor.blur_sigma.0", r"blur_sigma.0: .* <class 'tuple'>"),
]
TOLD_BY_THE_WALK = [
    ("train_cfg.max_epoch", r"did you mean 'max_epochs'\?$"),
    ("train_dataloader.dataset.pipelin", r"did you mean 'pipeline'\?$"),
    ("model.head.queue_lenght", r"did you mean 'queue_length'\?$"),
    ("default_hooks.checkpoint.intervall", r"did you mean 'interval'\?$"),
    ("default_hooks.checkpoint.other", r"no such field; it has backend_args, by_epoch, .*interval"),
    ("default_hooks.mine.interval", r"default_hooks.mine: it must have a type"),
    ("env_cfg.deterministic", r"it has cudnn_benchmark, dist_cfg, mp_cfg, resource_limit\.$"),
    ("env_cfg.mp_cfg.foo", r"mp_cfg has no such field; it has mp_start_method, opencv"),
    ("custom_hooks.0.foo", r"custom_hooks.0.foo: .* has no such field; it has priority\.$"),
    ("val_dataloader.batch_size", r"val_cfg: it is needed beside val_dataloader and val_eva"),
]
UNREAD = [
    (DETECTION, "model.test_cfg.rcnn.max_det", r"rcnn has no such field; it has .*max_per_img"),
    (DETECTION, "model.test_cfg.foo", r"model.test_cfg has no such field; it has rcnn, rpn\.$"),
    (SEGMENTATION, "model.test_cfg.foo", r"model.test_cfg has no such field; it has mode\.$"),
    (DETECTION, "train_dataloader.dataset.filter_cfg.foo", r"has filter_empty_gt, min_size\.$"),
]
USED = [
    "work_dir",
    "resume",
    "auto_scale_lr.enable",
    "find_unused_parameters",
    "model.num_chunks",
    "model.head.queue_length",
    "model.head.patch_queue_length",
    "model.backbone.norm_cfg.requires_grad",
    "optim_wrapper.accumulative_counts",
    "optim_wrapper.dtype",
    "optim_wrapper.clip_grad.max_norm",
    "optim_wrapper.paramwise_cfg.norm_decay_mult",
    "default_hooks.checkpoint.save_best",
    "default_hooks.checkpoint.priority",
    "default_hooks.mine.type",
    "env_cfg.resource_limit",
    "train_dataloader.prefetch_factor",
]


class TestOptions:
    @pytest.mark.parametrize(("config", "key", "keys"), HELPERS)
    def test_a_helper_is_refused_and_the_keys_that_work_are_named(self, config, key, keys):
        cfg = Config.fromfile(config)
        name = key.split(".")[0]
        message = (
            rf"--cfg-options {name} changes nothing, for no run reads '{name}' \(it only helped to "
            rf"write the config\); set {', '.join(keys)} instead"
        )
        with pytest.raises(UserError, match=message):
            merge_options(cfg, {key: 1})
        assert cfg.to_dict() == Config.fromfile(config).to_dict()

    @pytest.mark.parametrize(("config", "key", "keys"), HELPERS)
    def test_the_keys_that_are_named_can_be_set(self, config, key, keys):
        cfg = Config.fromfile(config)
        merge_options(cfg, dict.fromkeys(keys, 7))
        for path in keys:
            node = cfg
            for part in path.split("."):
                node = node[int(part)] if isinstance(node, list) else node[part]
            assert node == 7

    @pytest.mark.parametrize(("key", "message"), MISSPELT)
    def test_what_no_run_uses_is_refused(self, key, message):
        with pytest.raises(UserError, match=message):
            merge_options(Config.fromfile(SSPRL), {key: 1})

    @pytest.mark.parametrize(("key", "message"), TOLD_BY_THE_WALK)
    def test_what_a_class_does_not_take_is_refused_before_the_run(self, key, message):
        with pytest.raises(UserError, match=message):
            prepare_train_config(SSPRL, cfg_options={key: 1})

    @pytest.mark.parametrize(("config", "key", "message"), UNREAD)
    def test_what_other_packages_pass_over_is_refused(self, config, key, message, capfd):
        cfg = Config.fromfile(config)
        capfd.readouterr()
        with pytest.raises(UserError, match=message):
            merge_options(cfg, {key: 1})
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("key", USED)
    def test_fields_that_a_config_does_not_set_may_be_set(self, key):
        cfg = Config.fromfile(SSPRL)
        merge_options(cfg, {key: 1})
        node = cfg
        for part in key.split("."):
            node = node[part]
        assert node == 1

    @pytest.mark.parametrize(
        "prepare",
        [
            lambda options: prepare_train_config(SSPRL, cfg_options=options),
            lambda options: prepare_test_config(LINEAR, "w.pth", cfg_options=options),
            lambda options: read_config(SSPRL, work_dir=".", cfg_options=options),
        ],
        ids=["train", "test", "profile"],
    )
    def test_every_command_refuses_them(self, tmp_path, monkeypatch, prepare):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UserError, match="set .*train_dataloader.batch_size"):
            prepare({"batch_size": 8})
        assert list(tmp_path.iterdir()) == []


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("optim_wraper", "optim_wrapper"),
            ("train_dataloder", "train_dataloader"),
            ("custom_hook", "custom_hooks"),
        ],
    )
    def test_a_name_that_is_almost_a_key_is_refused(self, tmp_path, name, meant):
        config = write_config(tmp_path)
        config.write_text(config.read_text() + f"{name} = dict()\n")
        message = rf"toy.py: {name}: no run reads it; did you mean '{meant}'\? Otherwise give"
        with pytest.raises(UserError, match=message):
            prepare_train_config(config, work_dir=tmp_path / "run")

    def test_helpers_pass(self):
        helpers = ["train_pipeline", "val_ann_file", "dataset_type", "backend_args", "tta_model"]
        helpers += ["data_preprocessor", "custom_imports", "launcher", "norm_cfg", "optimizer"]
        check_spelling(Config(dict.fromkeys(helpers, 1)))


class TestViews:
    def test_the_data_follow_the_layout_of_the_model(self):
        cfg = Config.fromfile(SSPRL)
        merge_options(cfg, {"model.layout.num_small": 6})
        crop = cfg.train_dataloader.dataset.pipeline[0]
        assert crop.layout == cfg.model.layout
        assert ViewLayout.build(crop.layout).num_small == 6
        check_pretraining(cfg)

    def test_a_layout_of_their_own_must_be_the_same(self):
        cfg = Config.fromfile(SSPRL)
        merge_options(cfg, {f"{VIEWS}.num_small": 6})
        message = rf"layout of {VIEWS}, but num_small of them are \[0\] and \[6\]; leave the second"
        with pytest.raises(UserError, match=message):
            check_pretraining(cfg)
        merge_options(cfg, {"model.layout.num_small": 6})
        check_pretraining(cfg)

    def test_what_a_run_writes_down_is_complete(self, tmp_path, on_cpu):
        (tmp_path / "images").mkdir()
        data = {"train_dataloader.dataset.data_root": str(tmp_path / "images")}
        cfg = prepare_train_config(SSPRL, work_dir=tmp_path / "run", cfg_options=data)
        cfg.dump(tmp_path / "dump.py")
        found = Config.fromfile(tmp_path / "dump.py")
        crop = found.train_dataloader.dataset.pipeline[0]
        assert crop.layout == found.model.layout == Config.fromfile(SSPRL).layout
        again = prepare_train_config(tmp_path / "dump.py", work_dir=tmp_path / "run")
        assert again.train_dataloader.to_dict() == cfg.train_dataloader.to_dict()


class TestSchedule:
    @pytest.mark.parametrize(
        ("scheduler", "loop", "warning"),
        [
            ({"T_max": 5}, {"max_epochs": 5}, None),
            (
                {"T_max": 200},
                {"max_epochs": 5},
                "param_scheduler.0 has its lowest rate after 200 epochs (T_max=200), but the "
                "training ends after train_cfg.max_epochs=5; set T_max to 5 as well unless that is "
                "meant.",
            ),
            ({"T_max": 4, "begin": 1}, {"max_epochs": 5}, None),
            ({"T_max": 5, "begin": 1}, {"max_epochs": 5}, "set T_max to 4 as well"),
            ({"T_max": 90, "begin": 10, "by_epoch": False}, {"max_iters": 100}, None),
            ({"T_max": 9, "by_epoch": False}, {"max_iters": 100}, "train_cfg.max_iters=100; set"),
            ({"T_max": 9, "by_epoch": False}, {"max_epochs": 5}, None),
            ({"type": "MultiStepLR", "T_max": 9}, {"max_epochs": 5}, None),
        ],
    )
    def test_a_cosine_ends_with_the_training(self, monkeypatch, scheduler, loop, warning):
        lines = []
        monkeypatch.setattr(schedule_checks, "print_log", lambda text, **_: lines.append(text))
        cfg = Config(
            {"param_scheduler": [{"type": "CosineAnnealingLR", **scheduler}], "train_cfg": loop}
        )
        schedule_checks.warn_of_schedule(cfg)
        assert len(lines) == (warning is not None)
        assert warning is None or warning in lines[0]

    def test_a_training_warns(self, tmp_path, monkeypatch):
        lines = []
        monkeypatch.setattr(
            schedule_checks, "print_log", lambda text, logger, level: lines.append((text, level))
        )
        config = write_config(tmp_path)
        config.write_text(config.read_text() + SCHEDULE)
        run(prepare_train_config(config, work_dir=tmp_path / "run"), "train")
        assert [level for _, level in lines] == [30]


SCHEDULE = 'param_scheduler = dict(type="CosineAnnealingLR", T_max=3)\n'
