"""Time some steps of a pre-training that is about to start, in a process of their own."""

import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..console import quiet_console
from ..errors import UserRuntimeError

if TYPE_CHECKING:
    from mmengine.config import Config
    from torch import Tensor

TIME_LIMIT_S = 45.0
"""The timed steps, with one to warm up, are made so small that they are likely to end in it."""

_LEAST_STEPS, _MOST_STEPS = 3, 10
_LONG_ENOUGH_S = 8.0
"""After it no step begins, but for the least number."""


@dataclass(frozen=True)
class Pace:
    """What a step of one process takes.

    Attributes:
        step_s: Seconds of a step with all its images, and with the loader's work on a CPU.
        num_timed: Images of the steps that were timed.
        batch_size: Images of a step in training; more than ``num_timed`` where those would have
            taken too long.
        memory_bytes: Peak, allocated on a GPU or resident without the loader's workers on a CPU.
        checkpoint_bytes: Model, queues of all processes and optimizer.
        backbone_bytes: The backbone's weights.
        device: 'cpu', 'cuda', ...
        cores: CPU cores that the process may use.
        load: Processes that wanted a core in the last minute, this one's included.
    """

    step_s: float
    num_timed: int
    batch_size: int
    memory_bytes: float
    checkpoint_bytes: int
    backbone_bytes: int
    device: str
    cores: int
    load: float


def measure_pace(cfg: "Config", *, amp: bool, num_devices: int) -> Pace:
    """Train some steps from random weights, without leaving a trace here or on the disk.

    A process of its own does it: so the random numbers of this one stay as they are, the peak of
    its memory is its own, and a GPU is free again afterwards.

    Args:
        cfg: Config of the training.
        amp: Whether it will use mixed precision.
        num_devices: Processes that will train; one is measured, and no communication.

    Raises:
        RuntimeError: The process was ended, most likely for want of memory.
    """
    import torch

    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.py"
        cfg.dump(path)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            try:
                threads = torch.get_num_threads()
                return pool.submit(_measure, str(path), amp, num_devices, threads).result()
            except BrokenProcessPool as error:
                raise UserRuntimeError(
                    "the process that timed some steps was ended, most likely because there is "
                    "not enough memory; lower --batch-size (--accumulate makes up for it) or use "
                    "--backbone resnet18."
                ) from error


def fitting_images(seconds: float, num_images: int, full: int, unit: int) -> int:
    """Return how many images the timed steps should have.

    Args:
        seconds: Time of a step of ``num_images``, at least ``unit``.
        num_images: Its images.
        full: Images of a step in training.
        unit: What the number is a multiple of, and ``full`` too.

    Returns:
        ``full`` if the least number of such steps fits into ``TIME_LIMIT_S``, or as many as do.
    """
    fitting = TIME_LIMIT_S / (1 + _LEAST_STEPS) / seconds * num_images
    return max(num_images, min(full, int(fitting) // unit * unit))


def scaled(seconds: float, fixed: float, num_timed: int, full: int) -> float:
    """Return the time of a step with all images, of which ``fixed`` does not grow with them."""
    return fixed + (seconds - fixed) * full / num_timed


def with_loader(
    step_s: float, loading_s: float, *, num_workers: int, cores: float, on_gpu: bool
) -> float:
    """Add what the loader costs a step.

    Args:
        step_s: Seconds of the step alone.
        loading_s: Seconds of one core to load its images.
        num_workers: Processes that load; 0 loads between the steps.
        cores: CPU cores of a training process and its workers.
        on_gpu: A step on a GPU hides the loading that fits into it; one on a CPU shares the cores.
    """
    if num_workers == 0:
        return step_s + loading_s
    if on_gpu:
        return max(step_s, loading_s / min(num_workers, max(1.0, cores)))
    return step_s + loading_s / cores


def _measure(config: str, amp: bool, num_devices: int, threads: int) -> Pace:
    import logging

    with quiet_console():
        import torch
        from mmengine.logging import MMLogger
        from mmengine.registry import DefaultScope

        from ..profiling.parts import build_parts, read_config

        MMLogger.get_current_instance().setLevel(logging.ERROR)  # training says it all again
        with DefaultScope.overwrite_default_scope("mmssprl"):
            cfg = read_config(
                config,
                data=None,
                amp=amp,
                compile=False,
                cfg_options={"train_dataloader.dataset.max_bad_share": 1.0},
                launcher="none",
            )
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            return _time_steps(cfg, build_parts(cfg), num_devices)


def _time_steps(cfg: "Config", parts: Any, num_devices: int) -> Pace:
    import torch
    from mmengine.device import get_device

    from ..profiling.clock import PhaseClock
    from ..profiling.loader_phases import measure_loader
    from ..profiling.machine import peak_bytes, reset_peak_bytes, usable_cores
    from ..profiling.profile import count_activations, typical
    from ..profiling.step_phases import OPTIMIZER, phases_of

    device, full = get_device(), parts.batch_size
    on_gpu, unit = device != "cpu", max(2, cfg.model.get("num_chunks", 1))
    num_workers = cfg.train_dataloader.get("num_workers", 0)
    loader, batches = measure_loader(
        parts.dataset, parts.indices, parts.collate, batch_size=full, use_workers=num_workers > 0
    )
    queues = [queue for queue in parts.core.head.queues if queue is not None]
    queue_bytes = _num_bytes(queue.features for queue in queues)
    model_bytes = _num_bytes(parts.core.state_dict().values())

    def batch(number: int, images: int) -> dict:
        return {"inputs": [part[:images] for part in batches[number % len(batches)]["inputs"]]}

    def step(number: int, images: int) -> None:
        parts.model.train_step(batch(number, images), optim_wrapper=parts.optim_wrapper)

    unit = min(unit, full)
    activation_bytes = count_activations(parts, batch(0, unit))  # compiles as well
    clock = PhaseClock(synchronize=torch.get_device_module(device).synchronize)
    with phases_of(clock, parts.core, parts.optim_wrapper):
        with clock.step() as first:
            step(0, unit)
        images = fitting_images(sum(first.values()) / 1e9, unit, full, unit)
        reset_peak_bytes(device)
        step(1, images)  # allocates for this size
        times: list[Mapping[str, int]] = []
        start = time.perf_counter()
        while len(times) < _LEAST_STEPS or (
            len(times) < _MOST_STEPS and time.perf_counter() - start < _LONG_ENOUGH_S
        ):
            with clock.step() as phases:
                step(len(times), images)
            times.append(phases)
    mean_ms = typical(times)
    cores = usable_cores()
    step_s = with_loader(
        scaled(sum(mean_ms.values()), mean_ms[OPTIMIZER], images, full) / 1000,
        sum(loader.ms.values()) * full / 1000,
        num_workers=num_workers,
        cores=cores / num_devices,
        on_gpu=on_gpu,
    )
    optimizer_bytes = _num_bytes(
        value
        for state in parts.optim_wrapper.optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    return Pace(
        step_s=step_s,
        num_timed=images,
        batch_size=full,
        memory_bytes=peak_bytes(device) + activation_bytes / unit * (full - images),
        checkpoint_bytes=model_bytes
        + optimizer_bytes
        + (num_devices * queue_bytes if num_devices > 1 else 0),
        backbone_bytes=_num_bytes(parts.core.backbone.state_dict().values()),
        device=device,
        cores=cores,
        load=os.getloadavg()[0],
    )


def _num_bytes(tensors: "Iterable[Tensor]") -> int:
    return sum(tensor.nbytes for tensor in tensors)
