"""Numbers that no run can use."""

import math
import re

import pytest
from mmengine.config import Config

from mmssprl.config.range_checks import check_ranges
from mmssprl.errors import UserError

CFG = {
    "model": {"type": "SSPRL", "head": {"epsilon": 0.02, "range": 1.0}},
    "optim_wrapper": {"optimizer": {"lr": 0.1}, "clip_grad": {"max_norm": 1.0, "norm_type": 2}},
    "param_scheduler": [{"type": "CosineAnnealingLR", "T_max": 3}],
    "train_cfg": {"max_epochs": 3},
    "train_dataloader": {"batch_size": 4, "num_workers": 0},
    "default_hooks": {"checkpoint": {"interval": 1, "max_keep_ckpts": 3}, "logger": {}},
}
FINITE = [
    ("model.head.epsilon", math.inf),
    ("model.head.range", math.nan),
    ("train_dataloader.pin_memory", math.nan),
    ("optim_wrapper.optimizer.lr", math.nan),
    ("optim_wrapper.optimizer.lr", -math.inf),
    ("optim_wrapper.clip_grad.max_norm", math.nan),
]
INTEGERS = [
    ("train_cfg.max_epochs", 0, "an integer >= 1"),
    ("train_cfg.max_epochs", 1.5, "an integer >= 1"),
    ("train_cfg.max_iters", True, "an integer >= 1"),
    ("auto_scale_lr.base_batch_size", "", "an integer >= 1"),
    ("num_threads", 0, "an integer >= 1 and <= 1024"),
    ("num_threads", 10**12, "an integer >= 1 and <= 1024"),
    ("env_cfg.mp_cfg.opencv_num_threads", 10**12, "an integer >= 0 and <= 1024"),
    ("train_dataloader.prefetch_factor", 10**12, "an integer >= 1 and <= 1024"),
    ("train_dataloader.num_workers", 10**12, "an integer >= 0 and <= 1024"),
    ("train_dataloader.num_workers", 1025, "an integer >= 0 and <= 1024"),
    ("train_cfg.val_interval", -1, "an integer >= 1"),
    ("train_dataloader.batch_size", "a", "an integer >= 1"),
    ("train_dataloader.batch_size", 0, "an integer >= 1"),
    ("train_dataloader.batch_size", 2.0, "an integer >= 1"),
    ("train_dataloader.num_workers", -1, "an integer >= 0 and <= 1024"),
    ("optim_wrapper.accumulative_counts", 0, "an integer >= 1"),
    ("default_hooks.logger.interval", 0, "an integer >= 1"),
    ("default_hooks.checkpoint.interval", 0, "an integer >= 1 or -1 for never"),
    ("default_hooks.checkpoint.interval", -2, "an integer >= 1 or -1 for never"),
    ("default_hooks.checkpoint.max_keep_ckpts", 0, "an integer >= 1 or -1 for no limit"),
    ("param_scheduler.0.T_max", 0, "a number > 0"),
    ("param_scheduler.0.T_max", "3", "a number > 0"),
    ("param_scheduler.0.begin", -1, "a number >= 0"),
    ("env_cfg.dist_cfg.timeout", "a", "a number > 0"),
    ("default_hooks.checkpoint.interval", None, "an integer >= 1 or -1 for never"),
    ("default_hooks.checkpoint.interval", [], "an integer >= 1 or -1 for never"),
]
RIGHT = [
    ("default_hooks.checkpoint.interval", -1),
    ("default_hooks.checkpoint.max_keep_ckpts", -1),
    ("train_dataloader.num_workers", 1024),
    ("train_cfg.val_interval", 3.0),
    ("optim_wrapper.clip_grad.norm_type", math.inf),
    ("optim_wrapper.clip_grad.max_norm", math.inf),
    ("param_scheduler.0.T_max", None),
    ("optim_wrapper.optimizer.lr", 0),
    ("train_dataloader.prefetch_factor", None),
]


def config(key, value):
    cfg = Config(CFG, filename="own.py", cfg_text="# made by the test")
    cfg.merge_from_dict({key: value})
    return cfg


@pytest.mark.parametrize(("key", "value"), FINITE)
def test_nan_and_infinity_are_refused(key, value):
    message = rf"^own.py: {key}: it must be a finite number, but got {value}; correct it\.$"
    with pytest.raises(UserError, match=message):
        check_ranges(config(key, value))


@pytest.mark.parametrize(("key", "value", "rule"), INTEGERS)
def test_counts_of_nothing_are_refused(key, value, rule):
    message = f"own.py: {key}: it must be {rule}, but got {value!r}; correct it."
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        check_ranges(config(key, value))


@pytest.mark.parametrize(("key", "value"), RIGHT)
def test_what_has_a_meaning_passes(key, value):
    check_ranges(config(key, value))


def test_lists_are_looked_into():
    with pytest.raises(UserError, match=r"model.head.areas.1: it must be a finite number, but got"):
        check_ranges(config("model.head.areas", [0.1, math.inf]))


def test_what_no_run_reads_may_hold_anything():
    cfg = config("helper", math.inf)
    check_ranges(cfg)
