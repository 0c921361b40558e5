"""Times of a training step: its FLOP rate (C7), and what it takes beside the backbone (C8)."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import default_collate

from ..common.clock import interleave, quartiles, ratio
from ..common.counts import flops_per_image
from ..common.gates import Row, measured
from ..common.models import Batch, build_model, build_optimizer, our_loader, shipped_config

_GEMM_SHAPES = [(2048, 2048, 2048), (4096, 1024, 1024), (1024, 4096, 512)]  # rows, columns, inner
_GIGA = 1e9


def time_rows(images: Path, batch_size: int, rounds: int) -> list[Row]:
    """Measure C7 and C8 with the shipped ResNet-50 config, on one thread."""
    cfg = shipped_config()
    model = build_model(cfg)
    wrapper = build_optimizer(cfg, model)
    dataset = our_loader(images, model.layout)
    batch = default_collate([dataset[i] for i in range(batch_size)])
    step = partial(model.train_step, batch, wrapper)
    flops = batch_size * flops_per_image(cfg)["conv"]
    gemm, peaks = _gemm()
    seconds = interleave(
        {"step": step, "backbone": _backbone_alone(model, batch), "gemm": gemm}, rounds
    )
    peaks = peaks[1:]  # the first call warmed up
    shares = {
        side: quartiles([flops / s / p for s, p in zip(seconds[side], peaks, strict=True)])
        for side in ("step", "backbone")
    }
    note = f"{batch_size} images x 28 crops, one thread, GEMM {max(peaks) / _GIGA:.0f} GFLOP/s"
    return [
        measured("C7", *shares["step"], note=note),
        measured("C7 backbone", *shares["backbone"]),
        measured("C8", *ratio(seconds["step"], seconds["backbone"]), note=note),
        measured("step", *(1000 * value / batch_size for value in quartiles(seconds["step"]))),
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
