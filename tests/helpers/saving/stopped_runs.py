"""Trainings that are stopped or diverge and are resumed, and runs compared bit by bit."""

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import nullcontext
from hashlib import sha256
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.package.checkout import ROOT
from mmengine.hooks import Hook

from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.system.stopping import SAVED, StoppedError, signals

PRETRAINING = """
layout = dict(image_px=16, levels=[dict(grid=2, resize_px=32, patch_px=16)])
model = dict(
    type="SSPRL",
    layout=layout,
    backbone=dict(
        type="ResNet", depth=18, stem_channels=8, base_channels=8, num_stages=1,
        strides=(1,), dilations=(1,), out_indices=(0,),
    ),
    neck=dict(type="MultiHeadNeck", in_channels=8, hid_channels=8, out_channels=4),
    head=dict(
        type="SinkhornHead", in_channels=4, num_prototypes=6, num_patch_prototypes=5,
        queue_length=8, patch_queue_length=32, queue_start_epoch=1, freeze_epochs=1,
    ),
)
train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    drop_last=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    collate_fn=dict(type="mmssprl.stack_views"),
    dataset=dict(
        type="UnlabeledImages",
        data_root={images!r},
        pipeline=[dict(type="PyramidCrop", layout=layout)],
    ),
)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="LARC", lr=0.6))
param_scheduler = [
    dict(type="CosineAnnealingLR", T_max=3, eta_min=0.0006, convert_to_iter_based=True)
]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=3)
default_hooks = dict(logger=dict(interval=1), checkpoint=dict(interval=1))
"""
"""Three epochs of five steps, on ten images."""
_NUMBERS = itertools.count()
_BY_CLOCK = ("time", "eta", "data_time", "memory", "images_per_second")


def write_pretraining(folder: Path) -> Path:
    """Write ten images and the config of a pre-training on them."""
    images = folder / "images"
    images.mkdir()
    write_noise(images)
    config = folder / "stopped.py"
    base = str(ROOT / "configs" / "_base_" / "default_runtime.py")
    config.write_text(f"_base_ = [{base!r}]\n" + PRETRAINING.format(images=str(images)))
    return config


class SignalAt(Hook):
    """Sends a signal in step ``step``, counted from 0, and waits until it is noted.

    This process and the workers of its loaders get it, as all processes of a group do.
    """

    def __init__(self, step: int, number: int) -> None:
        self.step = step
        self.number = number

    def before_train_iter(self, runner, *args, **kwargs) -> None:
        if runner.iter != self.step:
            return
        group = [os.getpid(), *(worker.pid for worker in active_children())]
        # By another process: a worker tells what its parent sends from what others do.
        subprocess.run(["kill", f"-{self.number:d}", *map(str, group)], check=True)
        end = time.monotonic() + 10
        while not signals.number:
            assert time.monotonic() < end
            time.sleep(0.001)


class BadGradient(Hook):
    """Makes the gradient of the first weight NaN from a step on, counted from 1."""

    def __init__(self, step):
        self.step = step

    def before_train_iter(self, runner, *args, **kwargs):
        if runner.iter + 1 == self.step:
            next(runner.model.parameters()).register_hook(lambda gradient: gradient * torch.nan)


def train(
    config: Path,
    work_dir: Path,
    *,
    stops: tuple[int, ...] = (),
    resume: str | None = None,
    number: int = signal.SIGTERM,
    hooks: tuple[Hook, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> None:
    """Train to the end in this process, stopped by a signal in each step of ``stops``."""
    for start, stop in enumerate((*stops, None)):
        more = () if stop is None else (SignalAt(stop, number),)
        ends = nullcontext() if stop is None else pytest.raises(StoppedError, match=str(SAVED))
        cfg = prepare_train_config(
            config, work_dir=work_dir, resume="auto" if start else resume, cfg_options=options
        )
        # Two runners in one second would share mmengine's name, its history and log.
        cfg.experiment_name = f"run_{next(_NUMBERS)}"
        with ends, signals.watched():
            launch(cfg, "train", hooks=[*more, *hooks], resume_by=["the", "command"])


def assert_equal_runs(cut: Path, whole: Path, checkpoint: str) -> None:
    """Compare checkpoints and logs of two runs bit by bit, except for times."""
    assert_equal(_state(cut / checkpoint), _state(whole / checkpoint), checkpoint)
    lines = logged(whole)
    assert lines
    assert_equal(logged(cut), lines, "scalars.json")


def logged(work_dir: Path) -> list[dict[str, Any]]:
    """Return the log lines of all starts, sorted by step."""
    kept = []
    for path in work_dir.glob("*/vis_data/scalars.json"):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            kept.append({key: line[key] for key in line if key not in _BY_CLOCK})
    return sorted(kept, key=lambda line: (line["step"], sorted(line)))


def _state(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:  # torch takes no name that is no UTF-8
        checkpoint = torch.load(file, weights_only=False)
    parts = {key: checkpoint[key] for key in ("state_dict", "optimizer", "param_schedulers")}
    return {**parts, "epoch": checkpoint["meta"]["epoch"], "iter": checkpoint["meta"]["iter"]}


def assert_equal(found: Any, expected: Any, where: str) -> None:
    """Compare two nested values, and the bits of their tensors."""

    def described(tensor: torch.Tensor) -> tuple[str, str, str]:
        digest = sha256(tensor.cpu().contiguous().numpy().tobytes()).hexdigest()
        return str(tensor.dtype), str(tensor.shape), digest

    texts = [json.dumps(value, default=described) for value in (found, expected)]
    assert json.loads(texts[0]) == json.loads(texts[1]), where
