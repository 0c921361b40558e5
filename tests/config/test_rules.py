import math

import pytest
from mmengine.config import Config

from mmssprl.config.rules import broken_rule
from mmssprl.config.shipped import shipped
from mmssprl.config.walk import check_parts
from mmssprl.errors import UserError

WRONG = [
    ("model.head.epsilon", (math.inf, math.nan), "a finite number"),
    ("optim_wrapper.optimizer.lr", (math.nan, -math.inf), "a finite number"),
    ("optim_wrapper.clip_grad.max_norm", (math.nan,), "a finite number"),
    ("train_cfg.max_epochs", (0, 1.5, -1), ">= 1"),
    ("train_cfg.max_iters", (True,), ">= 1"),
    ("auto_scale_lr.base_batch_size", ("",), ">= 1"),
    ("num_threads", (0, 10**12), ">= 1 and <= 1024"),
    ("env_cfg.mp_cfg.opencv_num_threads", (10**12,), ">= 0 and <= 1024"),
    ("train_dataloader.prefetch_factor", (10**12,), ">= 1 and <= 1024"),
    ("train_dataloader.num_workers", (-1, 1025), ">= 0 and <= 1024"),
    ("train_dataloader.batch_size", ("a", 0, 2.0), ">= 1"),
    ("optim_wrapper.accumulative_counts", (0,), ">= 1"),
    ("default_hooks.logger.interval", (0,), ">= 1"),
    ("default_hooks.checkpoint.interval", (0, -2, None, []), ">= 1 or -1"),
    ("default_hooks.checkpoint.max_keep_ckpts", (0,), ">= 1 or -1"),
    ("param_scheduler.0.T_max", (0, "3"), "> 0"),
    ("param_scheduler.0.begin", (-1,), ">= 0"),
    ("env_cfg.dist_cfg.timeout", ("a",), "> 0"),
]
RIGHT = [
    ("default_hooks.checkpoint.interval", -1),
    ("train_dataloader.num_workers", 1024),
    ("train_cfg.val_interval", 3.0),
    ("optim_wrapper.clip_grad.norm_type", math.inf),
    ("optim_wrapper.clip_grad.max_norm", math.inf),
    ("param_scheduler.0.T_max", None),
    ("optim_wrapper.optimizer.lr", 0),
    ("train_dataloader.prefetch_factor", None),
]


@pytest.mark.parametrize(("key", "values", "rule"), WRONG)
def test_numbers_that_nothing_can_use_are_refused(key, values, rule):
    for value in values:
        assert rule in broken_rule(key, value)


@pytest.mark.parametrize(("key", "value"), RIGHT)
def test_what_has_a_meaning_passes(key, value):
    assert broken_rule(key, value) is None


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("train_dataloader.batch_size", math.inf, "train_dataloader.batch_size"),
        ("model.head.areas", [0.1, math.inf], "model.head.areas.1"),
    ],
)
def test_the_walk_looks_everywhere_that_a_run_reads(key, value, place):
    cfg = Config.fromfile(shipped("configs/ssprl/ssprl_resnet18_scenes.py"))
    cfg.helper = math.inf
    check_parts(cfg, ("train",))
    cfg.merge_from_dict({key: value})
    with pytest.raises(UserError, match=rf"\.py: {place}: .*finite.* inf"):
        check_parts(cfg, ("train",))
