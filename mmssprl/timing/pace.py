"""Time some steps of a training that is about to start, in a process of their own."""

import os
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from ..console.quiet import quiet_console
from ..datasets.tar_images import last_index
from ..engine.launch import prepare_train_config, run
from ..engine.runner import end_workers
from ..errors import UserRuntimeError
from ..features.probe_hook import weights_before
from ..models import is_pretraining, pretraining_class
from ..registry import HOOKS
from ..saving.checkpoint_hooks import checkpoint_bytes
from ..system.environment import default_threads, peak_bytes, torch_threads, usable_cores
from ..system.processes import call_in_process
from .result import Pace
from .stopwatch import LoadedSteps
from .training import LEAST_STEPS, MeasuringHook, for_measuring, read_config

_MOST_STEPS = 10
_LONG_ENOUGH_S = 8.0  # after it no step begins, but for the least number
_VALIDATION_S = 4.0


def measure_pace(cfg: Config, *, amp: bool, num_devices: int) -> Pace:
    """Train some steps of a pre-training or a fine-tuning, without leaving a trace.

    A process of its own does it, with its own random numbers and peak of memory. One of
    ``num_devices`` processes is measured, and no communication.

    Raises:
        RuntimeError: Too little memory: the process was ended, or the device refused.
    """
    method = pretraining_class(cfg)
    given = (amp, num_devices, default_threads(), os.getloadavg()[0], last_index)
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


def _measure(
    config: str, amp: bool, num_devices: int, threads: int, load: float, index: dict
) -> Pace:
    last_index.update(index)
    torch.set_num_threads(threads)
    with quiet_console(), TemporaryDirectory() as work_dir:
        if not is_pretraining(Config.fromfile(config)):
            return _of_finetuning(config, work_dir, amp, load)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            return _of_pretraining(config, work_dir, amp, num_devices, load)


def _of_pretraining(config: str, work_dir: str, amp: bool, num_devices: int, load: float) -> Pace:
    options = {"train_dataloader.dataset.max_bad_share": 1.0}
    whole = read_config(config, work_dir=work_dir, amp=amp, cfg_options=options)
    watch = MeasuringHook(
        whole, _MOST_STEPS, _LONG_ENOUGH_S, forecasts=True, num_devices=num_devices, load=load
    )
    cfg = for_measuring(whole)
    cfg.log_level = "ERROR"  # training says it all again
    run(cfg, "train", hooks=[watch], keep_record=False)
    pace = watch.profile.pace
    hooks = whole.get("custom_hooks") or []
    probe = next((HOOKS.build(hook) for hook in hooks if hook["type"] == "ProbeHook"), None)
    if probe is None:
        return pace
    with torch_threads(pace.threads):  # as it will be probed
        probe_s = probe.estimate(watch.runner)
    return replace(pace, probe_s=probe_s, first_probes=len(weights_before(cfg)))


def _of_finetuning(config: str, work_dir: str, amp: bool, load: float) -> Pace:
    cfg = for_measuring(prepare_train_config(config, work_dir=work_dir, amp=amp), validates=True)
    cfg.log_level = "ERROR"
    watch = LoadedSteps(least=LEAST_STEPS, most=2 * _MOST_STEPS, max_seconds=_LONG_ENOUGH_S)
    run(cfg, "train", hooks=[watch], keep_record=False)
    batch_size = cfg.train_dataloader.batch_size
    validation_s = _validation_s(watch.runner)
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
        validation_s=validation_s,
    )


def _validation_s(runner: Runner) -> float:
    """Return the seconds of a whole validation without its score, from a part of it."""
    runner.model.eval()
    loader = runner.val_loop.dataloader
    start = time.perf_counter()
    with torch.no_grad():
        for num_batches, batch in enumerate(loader, start=1):  # noqa: B007
            runner.model.val_step(batch)
            if time.perf_counter() - start > _VALIDATION_S:
                break
    return (time.perf_counter() - start) * len(loader) / num_batches
