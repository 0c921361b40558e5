"""The rows of the training step: exact counts first, then ratios of times (C7 to C10)."""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.optim import OptimWrapper
from torch.utils.data import default_collate

from mmssprl.registry import OPTIMIZERS

from .gates import Row, interleave, measured, one_thread, quartiles, ratio
from .models import Batch, build_model, flops_per_image, our_loader, shipped_config
from .runs import collectives_per_step, run_config, syncs_per_step

_GEMM_SHAPES = [(2048, 2048, 2048), (4096, 1024, 1024), (1024, 4096, 512)]  # rows, columns, inner
_GIGA = 1e9


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Measure all gates of the training step, on batches of the first images of a folder."""
    batch_size, rounds = (2, 2) if quick else (4, 4)
    MMLogger.get_current_instance().setLevel("ERROR")
    with one_thread():
        log("host syncs and collectives in real runs (exact)")
        most: list[Any] = []  # of any step between log steps, both variants, all states
        for cfg in sync_configs().values():
            syncs_of_steps = [step.found for step in syncs_per_step(cfg) if not step.may_read]
            most = max([most, *syncs_of_steps], key=len)
        syncs = ", ".join(f"{name} {number}" for name, number in Counter(most).items())

        collectives = collectives_per_step(run_config(28, train_dataloader__batch_size=1))
        sinkhorn = [c.num_bytes for c in collectives if c.is_sinkhorn]
        num_others = len(collectives) - len(sinkhorn)
        note = f"{sinkhorn} bytes a rank; beside them DDP's {num_others} of a small backbone"
        found = [measured("C9", len(most), note=syncs), measured("C10", len(sinkhorn), note=note)]
        log(f"{rounds + 1} rounds of {batch_size} images x 28 crops, ResNet-50")
        found += time_rows(images, batch_size, rounds)
    return found


def sync_configs() -> dict[str, Config]:
    """Return short runs of both variants through all states of prototypes and queues.

    Queues fill unused while all is frozen, then some are used, and in the last epoch all.
    """
    states: dict[str, Any] = {
        "train_cfg__max_epochs": 3,
        "model__head__freeze_epochs": 1,
        "model__head__queue_start_epoch": 1,
        "model__head__queue_length": 8,
        "model__head__patch_queue_length": [72, 36],
    }
    return {"paper": run_config(28, **states), "released": run_config(34, **states)}


def time_rows(images: Path, batch_size: int, rounds: int) -> list[Row]:
    """Measure C7 and C8 with the shipped ResNet-50 config, on one thread."""
    cfg = shipped_config()
    model = build_model(cfg)
    optimizer = {**cfg.optim_wrapper.optimizer, "params": model.parameters()}
    wrapper = OptimWrapper(OPTIMIZERS.build(optimizer))
    dataset = our_loader(images, model.layout)
    batch = default_collate([dataset[i] for i in range(batch_size)])
    step = partial(model.train_step, batch, wrapper)
    flops = batch_size * flops_per_image(cfg)
    gemm, peaks = _gemm()
    seconds = interleave(
        {"step": step, "backbone": _backbone_alone(model, batch), "gemm": gemm}, rounds
    )
    peaks = peaks[1:]  # the first call warmed up
    shares = quartiles([flops / s / p for s, p in zip(seconds["step"], peaks, strict=True)])
    note = f"{batch_size} images x 28 crops, one thread, GEMM {max(peaks) / _GIGA:.0f} GFLOP/s"
    return [
        measured("C7", *shares, note=note),
        measured("C8", *ratio(seconds["step"], seconds["backbone"]), note=note),
    ]


def _backbone_alone(model: Any, batch: Batch) -> Callable[[], None]:
    inputs = model.data_preprocessor(batch, training=True)["inputs"]
    # (N_g, B, 3, px, px) -> (N_g B, 3, px, px)
    images = [crops.flatten(0, 1).contiguous(memory_format=torch.channels_last) for crops in inputs]
    with torch.no_grad():
        gradients = [torch.randn_like(model.backbone(x)[-1]) for x in images]

    def run() -> None:
        outputs = [model.backbone(x)[-1] for x in images]
        torch.autograd.backward(outputs, gradients)
        model.zero_grad()

    return run


def _gemm() -> tuple[Callable[[], None], list[float]]:
    """Return a call that multiplies matrices, and the list of the best FLOP/s of each call."""
    pairs = [(torch.randn(m, k), torch.randn(k, n)) for m, n, k in _GEMM_SHAPES]
    outputs = [torch.empty(m, n) for m, n, _ in _GEMM_SHAPES]
    peaks: list[float] = []

    def run() -> None:
        best = 0.0
        for (a, b), out in zip(pairs, outputs, strict=True):
            for _ in range(2):
                start = time.process_time()
                torch.mm(a, b, out=out)
                best = max(best, 2 * a.numel() * b.shape[1] / (time.process_time() - start))
        peaks.append(best)

    return run, peaks
