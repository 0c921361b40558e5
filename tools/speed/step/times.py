"""Times of a training step: its FLOP rate (C7), and what it takes beside the backbone (C8)."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from counts import build_model, build_optimizer, flops_per_image, shipped_config
from measure import Row, interleave, num_cores, ratio, spread
from torch import Tensor
from torch.utils.data import default_collate

from mmssprl.pyramid import ViewLayout
from mmssprl.registry import DATASETS

_GEMM_SHAPES = [(2048, 2048, 2048), (4096, 1024, 1024), (1024, 4096, 512)]  # rows, columns, inner
_GIGA = 1e9


def loader_batch(images: Path, layout: ViewLayout, batch_size: int) -> dict[str, list[Tensor]]:
    """Return what the loader gives for the first images of a folder."""
    dataset = DATASETS.build(
        {
            "_scope_": "mmssprl",
            "type": "UnlabeledImages",
            "data_root": str(images),
            "pipeline": [{"type": "mmssprl.PyramidCrop", "layout": layout}],
        }
    )
    dataset.set_epoch(0, 0)
    return default_collate([dataset[i] for i in range(batch_size)])


def time_rows(images: Path, batch_size: int, rounds: int) -> list[Row]:
    """Measure C7 and C8 with the shipped ResNet-50 config, on one thread.

    Args:
        images: Folder of images; its first ones make the batch.
        batch_size: Images a step.
        rounds: Timed calls of each side.
    """
    cfg = shipped_config()
    model = build_model(cfg)
    wrapper = build_optimizer(cfg, model)
    batch = loader_batch(images, model.layout, batch_size)
    step = partial(model.train_step, batch, wrapper)
    flops = batch_size * flops_per_image(cfg)["conv"]
    gemm, peaks = _gemm(time.process_time)
    seconds = interleave(
        {"step": step, "backbone": _backbone_alone(model, batch), "gemm": gemm}, rounds
    )
    peaks = peaks[1:]  # the first call warmed up
    shares = {
        side: spread([flops / s / p for s, p in zip(seconds[side], peaks, strict=True)])
        for side in ("step", "backbone")
    }
    overhead = ratio(seconds["step"], seconds["backbone"])
    per_image = [1000 * value / batch_size for value in spread(seconds["step"])]
    note = f"{batch_size} images x 28 crops, one thread, GEMM {max(peaks) / _GIGA:.0f} GFLOP/s"
    return [
        Row(
            "C7",
            "convolution FLOPs of a step over the time of the whole step / GEMM peak",
            shares["step"][0],
            "x",
            gate=0.42,
            stretch=0.55,
            spread=shares["step"][1:],
            note=note,
        ),
        Row(
            "C7 backbone",
            "the same over the time of the backbone alone",
            shares["backbone"][0],
            "x",
            spread=shares["backbone"][1:],
        ),
        _all_cores_row(step, flops),
        Row(
            "C8",
            "whole training step / forward and backward of the backbone alone",
            overhead[0],
            "x",
            gate=1.10,
            stretch=1.03,
            better="lower",
            spread=overhead[1:],
            note=note,
        ),
        Row(
            "step",
            "whole training step, augmentation on the CPU",
            per_image[0],
            "ms/image",
            better="lower",
            spread=(per_image[1], per_image[2]),
        ),
    ]


def _backbone_alone(model: Any, batch: dict[str, list[Tensor]]) -> Callable[[], None]:
    inputs = model.data_preprocessor(batch, training=True)["inputs"]
    images = [crops.flatten(0, 1).contiguous(memory_format=torch.channels_last) for crops in inputs]
    with torch.no_grad():
        gradients = [torch.randn_like(model.backbone(x)[-1]) for x in images]

    def run() -> None:
        outputs = [model.backbone(x)[-1] for x in images]
        torch.autograd.backward(outputs, gradients)
        model.zero_grad()

    return run


def _gemm(clock: Callable[[], float]) -> tuple[Callable[[], None], list[float]]:
    """Return a call that multiplies matrices, and the list of the best FLOP/s of each call."""
    pairs = [(torch.randn(m, k), torch.randn(k, n)) for m, n, k in _GEMM_SHAPES]
    outputs = [torch.empty(m, n) for m, n, _ in _GEMM_SHAPES]
    peaks: list[float] = []

    def run() -> None:
        best = 0.0
        for (a, b), out in zip(pairs, outputs, strict=True):
            for _ in range(2):
                start = clock()
                torch.mm(a, b, out=out)
                best = max(best, 2 * a.numel() * b.shape[1] / (clock() - start))
        peaks.append(best)

    return run, peaks


def _all_cores_row(step: Callable[[], Any], flops: int) -> Row:
    """The rate of C7 with a thread per core, by the clock on the wall."""
    cores = num_cores()
    gemm, peaks = _gemm(time.perf_counter)
    torch.set_num_threads(cores)
    try:
        step()
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        gemm()
    finally:
        torch.set_num_threads(1)
    return Row(
        "C7 all cores",
        f"C7 with {cores} threads, wall time, one step",
        flops / seconds / peaks[0],
        "x",
        note=f"GEMM {peaks[0] / _GIGA:.0f} GFLOP/s",
    )
