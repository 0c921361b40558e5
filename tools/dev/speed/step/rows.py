"""The rows of the training step: exact counts first, then ratios of times (C7 to C10, C12)."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.logging import MMLogger

from mmssprl.functional.phases import SINKHORN

from ..common.clock import one_thread
from ..common.counts import activation_bytes, flops_per_image, parameter_counts
from ..common.gates import Row, measured
from ..common.models import SHIPPED, shipped_config
from .larc_check import larc_errors
from .runs import collectives_per_step, operators_outside_backbone, run_config, syncs_per_step
from .times import time_rows

_GIGA, _MEGA = 1e9, 1e6


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Measure all gates of the training step, on batches of the first images of a folder."""
    batch_size, rounds = (2, 2) if quick else (4, 4)
    with _quiet_mmengine(), one_thread():
        log("operators, FLOPs, activation memory (exact)")
        found = _count_rows()
        log("host syncs and collectives in real runs (exact)")
        found += [_sync_row(), _collective_row()]
        log("LARC against float64")
        found.append(_larc_row(quick))
        log(f"{rounds + 1} rounds of {batch_size} images x 28 crops, ResNet-50")
        found += time_rows(images, batch_size, rounds)
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
    operators = operators_outside_backbone(shipped_config(), batch_size=16)
    found = [measured("operators", sum(operators.values()), note=_listed(operators))]
    for num_crops in SHIPPED:
        cfg = shipped_config(num_crops)
        flops = flops_per_image(cfg)
        note = f"Of these, the heads take {flops['heads'] / _GIGA:.2f}."
        found.append(measured(f"FLOPs {num_crops}", sum(flops.values()) / _GIGA, note=note))
        for name in ("float32", "bf16"):
            size = activation_bytes(cfg, bfloat16=name == "bf16")
            found.append(measured(f"activations {num_crops} {name}", size / _MEGA))
    parameters = parameter_counts(shipped_config())
    note = f"{parameters['tensors']} tensors"
    return [*found, measured("gradients", parameters["gradient_bytes"] / _MEGA, note=note)]


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


def _sync_row() -> Row:
    """C9: the most host syncs of any step between log steps, both variants, all states."""
    steps = [step for cfg in sync_configs().values() for step in syncs_per_step(cfg)]
    most = max((step.found for step in steps if not step.may_read), key=len)
    return measured("C9", len(most), note=_listed(Counter(most)))


def _collective_row() -> Row:
    collectives = collectives_per_step(run_config(28, train_dataloader__batch_size=1))
    sinkhorn = [c.num_bytes for c in collectives if c.part == SINKHORN]
    num_others = len(collectives) - len(sinkhorn)
    note = f"{sinkhorn} bytes a rank; beside them DDP's {num_others} of a small backbone"
    return measured("C10", len(sinkhorn), note=note)


def _larc_row(quick: bool) -> Row:
    settings = [(1e-2, 2e-2)] if quick else [(1e-6, 1e-3), (1e-2, 2e-2)]
    errors = [
        larc_errors(shipped_config(), weight_decay=decay, trust=trust) for decay, trust in settings
    ]
    parts = {name: max(found[name] for found in errors) for name in errors[0]}
    note = ", ".join(f"{name} {error:.1e}" for name, error in parts.items())
    note = f"All tensors of ResNet-50 and heads: {note}."
    return measured("C12", max(parts.values()), note=note)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())
