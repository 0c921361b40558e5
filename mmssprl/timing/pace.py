"""Time some steps of a pre-training that is about to start, in a process of their own."""

import os
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..console.quiet import quiet_console
from ..errors import UserRuntimeError
from ..system.environment import default_threads, usable_cores
from ..system.one_process import call_in_process

if TYPE_CHECKING:
    from mmengine.config import Config

TIME_LIMIT_S = 45.0
"""The timed steps, with one to warm up, are made so small that they are likely to end in it."""

LEAST_STEPS = 3


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
        threads: Of torch, in this process.
        load: Processes that wanted a core in the minute before.
        probe_s: Seconds of a probe; 0 without.
        first_probes: Probes before the training: of its own weights and of others.
    """

    step_s: float
    num_timed: int
    batch_size: int
    memory_bytes: float
    checkpoint_bytes: int
    backbone_bytes: int
    device: str
    cores: int
    threads: int
    load: float
    probe_s: float = 0.0
    first_probes: int = 0


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
    from ..datasets.tar_images import last_index
    from ..models import pretraining_class

    given = (amp, num_devices, default_threads(), os.getloadavg()[0], last_index)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.py"
        cfg.dump(path)
        try:
            return call_in_process(_measure, str(path), *given)
        except BrokenProcessPool as error:
            method = pretraining_class(cfg)
            makes_up = " (--accumulate makes up for it)"
            raise UserRuntimeError(
                "the process that timed some steps was ended, most likely because there is "
                "not enough memory; lower --batch-size"
                f"{makes_up if method and method.takes_num_chunks else ''} or use "
                "--backbone resnet18."
            ) from error


def make_pace(
    *,
    step_s: float,
    fixed_s: float,
    loading_s: float,
    num_timed: int,
    batch_size: int,
    num_workers: int,
    cores_of_each: float,
    peak_bytes: float,
    image_bytes: float,
    device: str,
    **others: Any,
) -> Pace:
    """Scale measured steps to those of a training.

    Args:
        step_s: Seconds of a step of ``num_timed`` images, without its loader.
        fixed_s: Of them, those that do not grow with the images.
        loading_s: Seconds of one core to load an image.
        num_timed: Images of the measured steps.
        batch_size: Images of a step in training.
        num_workers: Loader processes.
        cores_of_each: CPU cores of a training process and its loader.
        peak_bytes: Peak of the measured steps.
        image_bytes: What an image more adds to it.
        device: As in ``Pace``.
        others: So too.
    """
    return Pace(
        step_s=with_loader(
            scaled(step_s, fixed_s, num_timed, batch_size),
            loading_s * batch_size,
            num_workers=num_workers,
            cores=cores_of_each,
            on_gpu=device != "cpu",
        ),
        num_timed=num_timed,
        batch_size=batch_size,
        memory_bytes=peak_bytes + image_bytes * (batch_size - num_timed),
        device=device,
        cores=usable_cores(),
        **others,
    )


def fitting_images(
    seconds: float,
    num_images: int,
    full: int,
    unit: int,
    step_s: float = TIME_LIMIT_S / (1 + LEAST_STEPS),
) -> int:
    """Return how many images the timed steps should have.

    Args:
        seconds: Time of a step of ``num_images``, at least ``unit``.
        num_images: Its images.
        full: Images of a step in training.
        unit: What the number is a multiple of, and ``full`` too.
        step_s: What a step may take; by default so much that the least number of them fits into
            ``TIME_LIMIT_S``.

    Returns:
        ``full`` if it takes no longer, or as many as do, at least ``num_images``.
    """
    fitting = step_s / seconds * num_images
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


def _measure(
    config: str, amp: bool, num_devices: int, threads: int, load: float, index: dict
) -> Pace:
    with quiet_console(), TemporaryDirectory() as work_dir:
        import torch
        from mmengine.registry import DefaultScope

        from ..datasets.tar_images import last_index
        from ..engine.launch import run
        from ..registry import HOOKS
        from .pace_hook import PaceHook
        from .training import for_measuring, read_config

        last_index.update(index)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            options = {"train_dataloader.dataset.max_bad_share": 1.0}
            cfg = read_config(config, work_dir=work_dir, amp=amp, cfg_options=options)
            hooks = cfg.get("custom_hooks") or []
            probe = next((hook for hook in hooks if hook["type"] == "ProbeHook"), None)
            cfg = for_measuring(cfg)
            cfg.log_level = "ERROR"  # training says it all again
            torch.set_num_threads(threads)
            hook = PaceHook(num_devices, load, HOOKS.build(probe) if probe else None)
            run(cfg, "train", hooks=[hook], keep_record=False)
            return hook.pace
