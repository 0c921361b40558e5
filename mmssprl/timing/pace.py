"""Time some steps of a training that is about to start, in a process of their own."""

import os
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

from ..console.quiet import quiet_console
from ..errors import UserRuntimeError
from ..system.environment import default_threads, torch_threads, usable_cores
from ..system.processes import call_in_process

if TYPE_CHECKING:
    from mmengine.config import Config

TIME_LIMIT_S = 45.0
"""The timed steps, with one to warm up, are made so small that they are likely to end in it."""
LEAST_STEPS = 3
_MOST_STEPS = 10
_LONG_ENOUGH_S = 8.0
"""After it no step begins, but for the least number."""
_VALIDATION_S = 4.0


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
        backbone_bytes: The backbone's weights, if they are kept beside it.
        device: 'cpu', 'cuda', ...
        cores: CPU cores that the process may use.
        threads: Of torch, in this process.
        load: Processes that wanted a core in the minute before.
        probe_s: Seconds of a probe; 0 without.
        first_probes: Probes before the training: of its own weights and of others.
        validation_s: Seconds of a validation; 0 without.
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
    validation_s: float = 0.0


def measure_pace(cfg: "Config", *, amp: bool, num_devices: int) -> Pace:
    """Train some steps, without leaving a trace here or on the disk.

    A process of its own does it: so the random numbers of this one stay as they are, the peak of
    its memory is its own, and a GPU is free again afterwards.

    Args:
        cfg: Config of a pre-training, which begins with random weights, or of a fine-tuning.
        amp: Whether it will use mixed precision.
        num_devices: Processes that will train; one is measured, and no communication.

    Raises:
        RuntimeError: Too little memory: the process was ended, or the device refused.
    """
    from ..datasets.tar_images import last_index
    from ..models import pretraining_class

    method = pretraining_class(cfg)
    pretrains = method is not None
    given = (amp, num_devices, default_threads(), os.getloadavg()[0], last_index, pretrains)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.py"
        cfg.dump(path)
        try:
            return call_in_process(_measure, str(path), *given)
        except (BrokenProcessPool, torch.OutOfMemoryError) as error:
            remedy = "--batch-size or --image-px"
            if method is not None:
                makes_up = " (--accumulate makes up for it)" if method.takes_num_chunks else ""
                remedy = f"--batch-size{makes_up} or use --backbone resnet18"
            raise UserRuntimeError(
                "the process that timed some steps was ended, most likely because there is "
                f"not enough memory; lower {remedy}."
            ) from error


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
    config: str,
    amp: bool,
    num_devices: int,
    threads: int,
    load: float,
    index: dict,
    pretrains: bool = True,
) -> Pace:
    with quiet_console(), TemporaryDirectory() as work_dir:
        from mmengine.registry import DefaultScope

        from ..datasets.tar_images import last_index

        last_index.update(index)
        torch.set_num_threads(threads)
        if not pretrains:
            return _of_finetuning(config, work_dir, amp, load)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            return _of_pretraining(config, work_dir, amp, num_devices, load)


def _of_pretraining(config: str, work_dir: str, amp: bool, num_devices: int, load: float) -> Pace:
    from ..engine.launch import run
    from ..features.probe_hook import weights_before
    from ..registry import HOOKS
    from .training import MeasuringHook, for_measuring, read_config

    options = {"train_dataloader.dataset.max_bad_share": 1.0}
    whole = read_config(config, work_dir=work_dir, amp=amp, cfg_options=options)
    watch = MeasuringHook(
        whole,
        least=LEAST_STEPS,
        most=_MOST_STEPS,
        max_seconds=_LONG_ENOUGH_S,
        takes_few=True,
        num_devices=num_devices,
        load=load,
    )
    cfg = for_measuring(whole)
    cfg.log_level = "ERROR"  # training says it all again
    run(cfg, "train", hooks=[watch], keep_record=False)
    hooks = whole.get("custom_hooks") or []
    probe = next((HOOKS.build(hook) for hook in hooks if hook["type"] == "ProbeHook"), None)
    if probe is None:
        return watch.profile.pace
    with torch_threads(watch.profile.pace.threads):  # as it will be probed
        probe_s = probe.estimate(watch.runner)
    return replace(watch.profile.pace, probe_s=probe_s, first_probes=len(weights_before(cfg)))


def _of_finetuning(config: str, work_dir: str, amp: bool, load: float) -> Pace:
    from ..engine.launch import prepare_train_config, run
    from ..engine.runner import end_workers
    from ..saving.checkpoint_hooks import checkpoint_bytes
    from ..system.environment import peak_bytes
    from .stopwatch import LoadedSteps, validation_s
    from .training import for_measuring

    cfg = for_measuring(prepare_train_config(config, work_dir=work_dir, amp=amp), validates=True)
    cfg.log_level = "ERROR"
    watch = LoadedSteps(least=LEAST_STEPS, most=2 * _MOST_STEPS, max_seconds=_LONG_ENOUGH_S)
    run(cfg, "train", hooks=[watch], keep_record=False)
    batch_size = cfg.train_dataloader.batch_size
    validation = validation_s(watch.runner, _VALIDATION_S)
    end_workers(watch.runner)
    return Pace(
        step_s=fmean(watch.seconds),
        num_timed=batch_size,
        batch_size=batch_size,
        memory_bytes=peak_bytes(watch.device),
        checkpoint_bytes=checkpoint_bytes(watch.runner),
        backbone_bytes=0,
        device=watch.device,
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        load=load,
        validation_s=validation,
    )
