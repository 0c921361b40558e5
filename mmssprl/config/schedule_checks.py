"""Warnings of numbers that do not fit the length or the batch of their training."""

import logging
from collections.abc import Mapping
from typing import Any

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.optim import CosineAnnealingLR, LinearLR, PolyLR

from ..models import is_pretraining
from ..models.momentum_encoder import momentum_for
from ..registry import PARAM_SCHEDULERS, class_of
from .hooks import find_hook
from .keys import key_of_start

_LEAST_KEPT = 0.5
_IF_NEVER = {
    "queue_start_epoch": "the queues are never used",
    "dense_start_epoch": "the dense term never counts",
    "freeze_epochs": "the prototypes never learn",
}
"""What follows if an epoch of a model's settings is not before the end of the training."""


def warn_of_schedule(cfg: Config, epoch_steps: int) -> None:
    """Warn if a schedule is in the wrong unit, or does not end with the training.

    A cosine that ends early or late ends high or rises again. A warm-up (``LinearLR``) or a
    ``PolyLR`` that ends later than the training does not reach its last rate.
    """
    loop = cfg.get("train_cfg") or {}
    schedulers = cfg.get("param_scheduler") or []
    if isinstance(schedulers, Mapping):
        schedulers = [schedulers]
    for i, scheduler in enumerate(schedulers):
        kind = class_of(scheduler.get("type"), PARAM_SCHEDULERS) or object
        counts_epochs = scheduler.get("by_epoch", True)
        is_stepped = not counts_epochs or scheduler.get("convert_to_iter_based")
        follows_scores = getattr(kind, "need_val_args", False)
        if loop.get("max_iters") and not is_stepped and not follows_scores:
            _warn(
                f"param_scheduler.{i} counts epochs, but train_cfg iterations: its rate never "
                "changes; set by_epoch=False and its other numbers in iterations."
            )
            continue

        end, written = _end(loop, "epochs" if counts_epochs else "iters", epoch_steps)
        if end is None:
            continue
        if issubclass(kind, CosineAnnealingLR):
            _check_cosine(f"param_scheduler.{i}", scheduler, end, written)
        # Without an end mmengine takes the training's.
        elif issubclass(kind, LinearLR | PolyLR) and (scheduler.get("end") or end) > end:
            _warn(
                f"param_scheduler.{i} ({kind.__name__}) must end with the training or before, but "
                f"its end is {scheduler.get('end')}, and the training ends after {written}: its "
                f"last rate is not reached; set end to at most {end} unless this is intended."
            )


def warn_of_batch(cfg: Config, step_samples: int, parts: int = 1) -> None:
    """Warn if the learning rate is written for another number of samples per step.

    They are those of all accumulated ``parts``; mmengine scales the rate to one of them.
    """
    scaling = cfg.get("auto_scale_lr") or {}
    expected = scaling.get("base_batch_size")
    if expected and parts > 1 and scaling.get("enable"):
        _warn(
            f"auto_scale_lr.enable scales the rate to {step_samples // parts} samples, but a step "
            f"has {step_samples}, as optim_wrapper.accumulative_counts={parts}; set "
            f"auto_scale_lr.enable=False and the rate for {step_samples} samples."
        )
    elif expected and step_samples and step_samples != expected and not scaling.get("enable"):
        _warn(
            f"a step has {step_samples} samples, but optim_wrapper.optimizer.lr is written for "
            f"auto_scale_lr.base_batch_size={expected}; scale it by auto_scale_lr.enable=True, or "
            f"set the rate and base_batch_size={step_samples}."
        )


def warn_of_queue(cfg: Config, num_processes: int) -> None:
    """Warn if queues, of so many rows per process, are written for other processes."""
    written_for = cfg.get("num_gpus")
    head = (cfg.get("model") or {}).get("head") or {}
    rows = head.get("queue_length")
    if is_pretraining(cfg) and rows and written_for and written_for != num_processes:
        values = _queues_for(head, written_for, num_processes)
        _warn(
            f"queues have their rows per process, and model.head.queue_length={rows} is written "
            f"for num_gpus={written_for}: with {num_processes} the queue has "
            f"{rows * num_processes:,} rows instead of {rows * written_for:,}; set "
            f"{values} num_gpus={num_processes}."
        )


def line_of_queues(cfg: Config, options: Mapping[str, Any]) -> str:
    """Return a line if ``options`` set ``num_gpus`` without the queues that it is for, else ""."""
    head = (cfg.get("model") or {}).get("head") or {}
    before = cfg.get("num_gpus")
    now = options.get("num_gpus", before)
    sets_queues = any(key.startswith("model.head") for key in options)
    if not (before and now and now != before and head.get("queue_length")) or sets_queues:
        return ""
    return (
        f"num_gpus={now} leaves the queues as they are, for {before} processes by the config; set "
        f"{_queues_for(head, before, now)} unless this is intended."
    )


def _queues_for(head: Mapping[str, Any], before: int, now: int) -> str:
    """Return the options that keep the rows of all queues for another number of processes."""
    names = [name for name in ("queue_length", "patch_queue_length") if head.get(name)]
    return " ".join(f"model.head.{each}={head[each] * before // now}" for each in names)


def warn_of_momentum(cfg: Config, num_steps: int) -> None:
    """Warn if a pre-training's moving average keeps less than half of itself in a step.

    mmpretrain counts the other share, 1 - m. A training of a few steps has a low momentum, too.
    """
    if not is_pretraining(cfg):
        return
    for name in ("momentum", "base_momentum"):
        kept = cfg.model.get(name)
        is_low = isinstance(kept, int | float) and kept < _LEAST_KEPT
        if is_low and momentum_for(num_steps, 1.0) >= _LEAST_KEPT:
            _warn(
                f"model.{name}={kept:g} is the share of the moving average that each step keeps, "
                f"so the average is nearly the network itself; mmpretrain counts the other share: "
                f"set model.{name}={1 - kept:g} unless this is intended."
            )


def warn_of_late_epochs(cfg: Config) -> None:
    """Warn if an epoch of a pre-training's model, as the first with queues, never comes."""
    end = (cfg.get("train_cfg") or {}).get("max_epochs") or 1
    if end == 1 or not is_pretraining(cfg):  # one epoch is a trial
        return
    for place, part in (("model", cfg.model), ("model.head", cfg.model.get("head") or {})):
        for name, effect in _IF_NEVER.items():
            is_used = name != "queue_start_epoch" or part.get("queue_length")
            if is_used and part.get(name, 0) >= end:
                _warn(
                    f"{place}.{name}={part[name]} is not before the end of the training, "
                    f"train_cfg.max_epochs={end}: {effect}; lower it in proportion."
                )


def warn_of_frozen(cfg: Config) -> None:
    """Warn of random weights that a pre-training keeps, as in a backbone copied from a detector."""
    if not is_pretraining(cfg):
        return
    backbone = cfg.model.get("backbone") or {}
    start = key_of_start(cfg) or find_hook(cfg, "InitialWeightsHook")
    if not start and (backbone.get("frozen_stages", -1) >= 0 or backbone.get("norm_eval")):
        _warn(
            "model.backbone has frozen_stages or norm_eval, which suit trained weights, but starts "
            "from random ones: set frozen_stages=-1 and norm_eval=False, or give weights."
        )


def _end(loop: Mapping[str, Any], unit: str, epoch_steps: int) -> tuple[int | None, str]:
    """Return the end of a training in a unit of its scheduler, and as it is written."""
    if loop.get(f"max_{unit}"):
        return loop[f"max_{unit}"], f"train_cfg.max_{unit}={loop[f'max_{unit}']}"
    if unit == "iters" and loop.get("max_epochs"):
        steps = loop["max_epochs"] * epoch_steps
        return steps, f"{steps} iters (train_cfg.max_epochs={loop['max_epochs']})"
    return None, ""


def _check_cosine(name: str, scheduler: Mapping[str, Any], end: int, written: str) -> None:
    begin = scheduler.get("begin", 0)
    period = scheduler.get("T_max")
    if not period or begin + period == end:
        return
    unit = "epochs" if scheduler.get("by_epoch", True) else "iters"
    _warn(
        f"{name} has its lowest rate after {begin + period} {unit} (T_max={period}), but the "
        f"training ends after {written}; set T_max to {end - begin} unless this is intended."
    )


def _warn(text: str) -> None:
    print_log(text, logger="current", level=logging.WARNING)
