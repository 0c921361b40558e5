"""The gates of the training step: exact counts first, then ratios of times (C7-C10, C12)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import swav_step
from counts import (
    activation_bytes,
    flops_per_image,
    parameter_counts,
    shipped_config,
)
from larc_check import larc_errors
from measure import Row, one_thread
from mmengine.config import Config
from mmengine.logging import MMLogger
from operator_counts import operators_outside_backbone
from step_counts import SyncCounter, collectives_per_step, run_config, run_steps
from step_times import loader_batch, time_rows

Log = Callable[[str], None]

_GIGA, _MEGA = 1e9, 1e6


def rows(images: Path, quick: bool, log: Log) -> list[Row]:
    """Measure all gates of the training step.

    Args:
        images: Folder of images; its first ones make the batches.
        quick: Fewer rounds and smaller batches.
        log: Takes a line of progress.
    """
    batch_size, rounds = (2, 2) if quick else (4, 4)
    with _quiet_mmengine(), one_thread():
        log("operators, FLOPs, activation memory (exact)")
        found = _count_rows()
        log("host syncs and collectives in real runs (exact)")
        found += [sync_row(), *_collective_rows()]
        log("LARC against float64")
        found += _larc_rows(quick)
        log(f"{rounds + 1} rounds of {batch_size} images x 28 crops, ResNet-50")
        found += time_rows(images, batch_size, rounds)
        log(f"SwAV, {rounds + 1} rounds of {batch_size} images x 8 crops, ResNet-50")
        found += swav_step.rows(partial(loader_batch, images), batch_size, rounds)
    return found


@contextmanager
def _quiet_mmengine() -> Iterator[None]:
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _count_rows() -> list[Row]:
    cfg = shipped_config()
    operators = operators_outside_backbone(cfg, batch_size=2)
    phases = ", ".join(f"{phase} {num}" for phase, num in operators.items() if phase != "all")
    found = [
        Row(
            "operators",
            "operators a step outside the backbone, for any batch",
            operators["all"],
            "operators",
            better="lower",
            note=phases,
        )
    ]
    for num_crops in (28, 34):
        cfg = shipped_config(num_crops)
        flops = flops_per_image(cfg)
        found.append(
            Row(
                f"FLOPs {num_crops}",
                f"forward and backward, ResNet-50, {num_crops} crops",
                sum(flops.values()) / _GIGA,
                "GFLOP/image",
                better="lower",
                note=f"heads {flops['heads'] / _GIGA:.2f}",
            )
        )
        found += [
            Row(
                f"activations {num_crops} {name}",
                f"kept for the backward pass, ResNet-50, {num_crops} crops, {name}",
                activation_bytes(cfg, bfloat16=name == "bf16") / _MEGA,
                "MB/image",
                better="lower",
            )
            for name in ("float32", "bf16")
        ]
    parameters = parameter_counts(shipped_config())
    found.append(
        Row(
            "gradients",
            "float32 gradients of ResNet-50 and heads",
            parameters["gradient_bytes"] / _MEGA,
            "MB",
            better="lower",
            note=f"{parameters['tensors']} tensors",
        )
    )
    return found


def sync_configs() -> dict[str, Config]:
    """Return short runs of both variants through all states of prototypes and queues.

    Epoch 0: frozen, queues fill unused. Epoch 1: learning, the image queue and that of scale 2
    are used, that of scale 1 is still filling until its last step. Epoch 2: all are used.
    """
    states: dict[str, Any] = {
        "train_cfg__max_epochs": 3,
        "model__head__freeze_epochs": 1,
        "model__head__queue_start_epoch": 1,
        "model__head__queue_length": 8,
        "model__head__patch_queue_length": [72, 36],
    }
    return {"paper": run_config(28, **states), "released": run_config(34, **states)}


def sync_row() -> Row:
    """C9: the most host syncs of any step between log steps, both variants, all states."""
    counts = [
        step.counted
        for cfg in sync_configs().values()
        for step in run_steps(cfg, SyncCounter())
        if not step.may_read
    ]
    most = max(counts, key=lambda counted: counted.total())
    what = "host syncs of a step between log steps, in mmengine's runner"
    note = ", ".join(f"{name} {num}" for name, num in most.items())
    return Row("C9", what, most.total(), "syncs", gate=0, better="lower", note=note)


def _collective_rows() -> list[Row]:
    collectives = collectives_per_step(run_config(28, train_dataloader__batch_size=1))
    sinkhorn = [c.num_bytes for c in collectives if c.sinkhorn]
    others = [c.num_bytes for c in collectives if not c.sinkhorn]
    return [
        Row(
            "C10",
            "collectives a step for all Sinkhorn problems",
            len(sinkhorn),
            "collectives",
            gate=4,
            stretch=3,
            better="lower",
            note=f"{sinkhorn} bytes a rank; beside them DDP's {len(others)} of a small backbone",
        )
    ]


def _larc_rows(quick: bool) -> list[Row]:
    settings = [(1e-2, 2e-2)] if quick else [(1e-6, 1e-3), (1e-2, 2e-2)]
    errors = [
        larc_errors(shipped_config(), weight_decay=decay, trust=trust) for decay, trust in settings
    ]
    parts = {name: max(found[name] for found in errors) for name in errors[0]}
    return [
        Row(
            "C12",
            "LARC in float32 against float64, all tensors of ResNet-50 and heads, 4 steps",
            max(parts.values()),
            "relative",
            gate=1e-6,
            better="lower",
            note=", ".join(f"{name} {error:.1e}" for name, error in parts.items()),
        )
    ]
