"""A made-up device, whose clock, memory and waits are scripted, and a tiny pre-training on it."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
from mmengine.config import Config

from tools.dev.speed.on_gpu.measures import Workload
from tools.dev.speed.on_gpu.meter import Meter

RUNTIME = Path(__file__).resolve().parents[2] / "configs" / "_base_" / "default_runtime.py"
# Eight channels: with four, oneDNN's channels-last backward writes out of bounds (torch 2.11).
TINY = """
layout = dict(image_px=32, levels=[dict(grid=2, resize_px=64, patch_px=16)])
model = dict(
    type="SSPRL",
    layout=layout,
    backbone=dict(type="ResNet", depth=18, stem_channels=8, base_channels=8),
    neck=dict(type="MultiHeadNeck", in_channels=64, hid_channels=8, out_channels=8),
    head=dict(type="SinkhornHead", in_channels=8, num_prototypes=20, num_patch_prototypes=10),
)
train_dataloader = dict(
    batch_size=2, num_workers=0, drop_last=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    collate_fn=dict(type="default_collate"),
    dataset=dict(type="UnlabeledImages", data_root="not_there",
                 pipeline=[dict(type="PyramidCrop", layout=layout)]),
)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="LARC", lr=0.1))
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=3)
launcher = "none"
"""


class FakeMeter(Meter):
    """A device whose clock moves only when a test says so."""

    def __init__(self, peak: int = 0) -> None:
        self.device = torch.device("cpu")
        self.now = 0.0
        self.peak = peak
        self.log: list[str] = []

    def mark(self) -> float:
        return self.now

    def seconds_between(self, start: float, end: float) -> float:
        return end - start

    def reset_peak(self) -> None:
        self.log.append("reset")

    def peak_bytes(self) -> int:
        self.log.append("read")
        return self.peak

    def free(self) -> None:
        self.log.append("free")

    def forbid_waiting(self, forbidden: bool) -> None:
        self.log.append(f"forbid {forbidden}")

    def worker(self, *seconds: float, batch: int = 1) -> SimpleNamespace:
        """A side whose steps take these seconds, over and over."""
        pace = itertools.cycle(seconds)

        def step() -> None:
            self.now += next(pace)

        return SimpleNamespace(step=step, batch=batch)


class SteppedMeter(FakeMeter):
    """Its clock moves by one second whenever a model's step has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.states = []

    def step_ended(self) -> None:
        self.now += 1.0
        self.log.append("step")


def tiny_config():
    base = Config.fromfile(RUNTIME).to_dict()
    return Config({**base, **Config.fromstring(TINY, ".py").to_dict()})


def workload(cfg, **changes):
    given = Workload(
        batch=2,
        rounds=2,
        repeats=1,
        warmup=2,
        guarded=3,
        drained=1,
        timed=2,
        synthetic=1,
        workers=0,
        num_files=2,
        config=lambda crops, compiled: Config(cfg.to_dict()),
        equivalent=lambda crops: 4.0,
        gate_2=True,
    )
    return replace(given, **changes)


WORKLOAD = workload(None)
ROUNDS = workload(None, rounds=3, repeats=4)
