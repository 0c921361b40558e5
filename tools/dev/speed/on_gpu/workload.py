"""What is measured on a GPU, apart from the device itself."""

from collections.abc import Callable
from dataclasses import dataclass

from mmengine.config import Config

from ..common.counts import equivalent_crops


@dataclass(frozen=True)
class Workload:
    """Numbers of rounds and of steps, and the configs.

    Args:
        batch: Images per step.
        rounds: Timed rounds of the synthetic measurements, each of all sides.
        repeats: Steps per round and side.
        warmup: Steps before all timing, in which kernels are chosen or compiled.
        guarded: Steps of the loop after these, in which the host must not wait for the device;
            none of them is logged.
        drained: Steps after these, in which most batches are used up that the loader had made.
        timed: Steps after these, which are timed and end the epoch.
        synthetic: Steps on one batch that stays on the device, before and after the epoch.
        workers: Processes of the loader.
        num_files: Different JPEG files.
        config: (crops, compiled) -> a prepared config.
        equivalent: Crops -> crops of 224 px of equal FLOPs.
        gate_2: Whether G2 judges this GPU; it is for an H200.
    """

    batch: int
    rounds: int
    repeats: int
    warmup: int
    guarded: int
    drained: int
    timed: int
    synthetic: int
    workers: int
    num_files: int
    config: Callable[[int, bool], Config]
    equivalent: Callable[[int], float] = equivalent_crops
    gate_2: bool = True

    @property
    def num_steps(self) -> int:
        """Steps of the loop's epoch."""
        return self.warmup + self.guarded + self.drained + self.timed
