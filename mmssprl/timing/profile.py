"""Measure where the time of a pre-training step goes, and what loading its images costs."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import broadcast, get_world_size
from mmengine.optim import AmpOptimWrapper
from mmengine.registry import DefaultScope

from ..config.pretrain_checks import check_pretraining
from ..engine.launch import Launcher, run
from ..errors import UserFileNotFoundError, UserValueError
from ..functional.phases import BACKBONE_BACKWARD, COMMUNICATION, HEADS_BACKWARD
from ..models import PretrainingModel, pretraining_class
from ..system.environment import usable_cores
from ..system.machine import describe_machine, peak_bytes, reset_peak_bytes
from .result import PHASES, Profile, Setting
from .saved_bytes import saved_bytes
from .training import MeasuringHook, for_measuring, read_config

TIME_LIMIT_S = 160.0
"""Fewer steps are measured than asked for if they and the warm-up take longer; the first step,
which may compile, and the choice of threads do not count. With it a CPU run of ResNet-50 stays
below four minutes."""

_WARMUP_STEPS = 2
"""Besides the one that counts activations: compilers, cuDNN's choice, memory pools are done."""

Log = Callable[[str], object]


def profile_training(
    config: str | Path,
    *,
    steps: int = 30,
    batch_size: int | None = None,
    launcher: Launcher = "none",
    time_limit_s: float = TIME_LIMIT_S,
    log: Log = lambda line: None,
    **options: Any,
) -> Profile:
    """Run some steps of a pre-training, from random weights, and split their time.

    The images are loaded first, in this process on one thread, and the steps then take them from
    memory: so a step never waits for its loader here. Nothing is written.

    Args:
        config: Pre-training config.
        steps: Steps to measure >= 1, or >= 2 with several processes, where every other one leaves
            out the gradients' all-reduce.
        batch_size: Images per process and step; None takes the config's, or a few on a CPU.
        launcher: What started the processes; every one of them calls this.
        time_limit_s: Seconds from the choice of threads on after which no step begins, but for
            the least number.
        log: Receives lines of progress.
        options: ``data``, ``cfg_options``, ``amp`` and ``compile``, see ``read_config``.

    Returns:
        The profile; its times are those of this process.

    Raises:
        FileNotFoundError: No such config or images.
        RuntimeError: ``compile`` where torch.compile cannot work.
        ValueError: No pre-training config, a number out of its range, more images per step than
            there are, a batch that ``model.num_chunks`` does not divide, or ``amp`` without an
            accelerator.
    """
    least = 1 if launcher == "none" else 2
    if steps < least:
        raise UserValueError(
            f"--steps must be >= {least} with launcher {launcher!r}, but got {steps}."
        )
    with (
        # The scope first: the config's model is looked up in it.
        DefaultScope.overwrite_default_scope("mmssprl"),
        TemporaryDirectory() as work_dir,
        torch.random.fork_rng(devices=[]),
    ):
        whole = read_config(config, work_dir=work_dir, launcher=launcher, **options)
        cfg = for_measuring(whole)
        config_batch_size = cfg.train_dataloader.batch_size
        cfg.train_dataloader.batch_size = chosen = choose_batch_size(cfg, batch_size)
        check_pretraining(cfg)  # once more, with this batch
        if batch_size is None and chosen != config_batch_size:
            log(
                f"{chosen} images a step: the config's {config_batch_size} could take minutes on "
                "a CPU; --batch-size sets the number"
            )
        log(f"loading images of {cfg.train_dataloader.dataset.get('data_root')}")
        hook = ProfilingHook(whole, steps, time_limit_s, log)
        try:
            run(cfg, "train", hooks=[hook], keep_record=False)
        except UserFileNotFoundError as error:
            hint = "or give the folder of images by --data."
            raise UserFileNotFoundError(f"{str(error).rstrip('.')}, {hint}") from error
    return hook.profile


def choose_batch_size(cfg: Config, batch_size: int | None) -> int:
    """Return the images per process and step: those that are asked for, which must be >= 1.

    None takes the config's, or on a CPU, where an image of the full-size configs takes about 5 s a
    core, as few as the model can be trained with.
    """
    if batch_size is not None:
        if batch_size < 1:
            raise UserValueError(f"--batch-size must be >= 1, but got {batch_size}.")
        return batch_size
    chosen = cfg.train_dataloader.batch_size
    if get_device() == "cpu":
        method = pretraining_class(cfg) or PretrainingModel
        return min(chosen, method.batch_unit(cfg.model))
    return chosen


class ProfilingHook(MeasuringHook):
    """Lets a runner take some steps, and makes a ``profile`` of them.

    Args:
        whole: Config of the training that is measured.
        num_steps: Steps to measure.
        time_limit_s: As for ``profile_training``.
        log: Receives lines of progress.
    """

    profile: Profile

    def __init__(self, whole: Config, num_steps: int, time_limit_s: float, log: Log) -> None:
        self.whole = whole
        self.num_steps = num_steps
        self.time_limit_s = time_limit_s
        self.log = log
        self.load = os.getloadavg()[0]

    def steps(self, batches: Iterator[dict]) -> Iterator[dict]:
        """Yield batches to warm up, for the steps under the clock, and for as many without it."""
        images, limit = self.loader_cost.num_images, f"{self.time_limit_s:.0f} s"
        self.log(
            f"{images} images loaded; {1 + _WARMUP_STEPS} steps to warm up, then {self.num_steps} "
            f"to measure, in {limit} at most"
        )
        with saved_bytes(self.runner.model) as counts:
            yield next(batches)
        yield from self.choose_threads(batches)
        deadline = time.perf_counter() + self.time_limit_s
        for _ in range(_WARMUP_STEPS):
            yield next(batches)
        reset_peak_bytes(self.device)
        times: list[Counter[str]] = []
        yield from self.timed_steps(batches, deadline, times)
        if len(times) < self.num_steps:
            self.log(f"only {len(times)} of {self.num_steps} steps fit into {limit}")
        step_ms = mean_phases(times, get_world_size())
        free_step_ms = sum(step_ms.values())
        if self.device != "cpu":
            start = time.perf_counter()
            for _ in times:
                yield next(batches)
            self.synchronize()
            free_step_ms = 1000 * (time.perf_counter() - start) / len(times)
        self.profile = Profile(
            setting=self._setting(),
            num_steps=len(times),
            asked_steps=self.num_steps,
            loader=self.loader_cost,
            step_ms=step_ms,
            free_step_ms=free_step_ms,
            activation_bytes=counts[0],
            peak_bytes=peak_bytes(self.device),
            checkpoint_bytes=self.checkpoint_bytes(get_world_size()),
            backbone_bytes=self.backbone_bytes(),
        )

    def timed_steps(
        self, batches: Iterator[dict], deadline: float, times: list[Counter[str]]
    ) -> Iterator[dict]:
        """Yield batches, and append the nanoseconds per phase of each step to ``times``.

        Of several processes odd steps do not all-reduce.
        """
        for number in range(self.num_steps):
            if number >= min(2, get_world_size()) and not _in_time(deadline):
                break
            is_local = get_world_size() > 1 and number % 2 == 1
            no_all_reduce = self.runner.model.no_sync() if is_local else nullcontext()
            with no_all_reduce, self.clock.step() as phases:
                yield next(batches)
            times.append(phases)

    def _setting(self) -> Setting:
        wrapper, loader = self.runner.optim_wrapper, self.loader
        is_amp = isinstance(wrapper, AmpOptimWrapper)
        return Setting(
            config=str(self.runner.cfg.filename),
            data=str(Path(loader.dataset.data_prefix["img_path"])),
            num_images=len(loader.dataset),
            batch_size=loader.batch_size,
            config_batch_size=self.whole.train_dataloader.batch_size,
            max_epochs=self.whole.train_cfg.get("max_epochs"),
            checkpoint=dict(self.whole.default_hooks.checkpoint or {}),
            num_processes=get_world_size(),
            num_workers=loader.num_workers,
            num_small=getattr(self.model.layout, "num_small", 0),
            num_chunks=self.model.num_chunks,
            is_frozen=bool(self.model.health().get("frozen", False)),
            precision=str(wrapper.cast_dtype).removeprefix("torch.") if is_amp else "float32",
            device=self.device,
            threads=torch.get_num_threads(),
            load=self.load,
            cores=usable_cores() / int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
            machine=describe_machine(self.device),
        )


def mean_phases(steps: Sequence[Mapping[str, int]], num_processes: int) -> dict[str, float]:
    """Return milliseconds per phase of a step as in training.

    Args:
        steps: Nanoseconds per phase of each step.
        num_processes: If there are several, every other step, the second first, had no all-reduce
            of the gradients. What that adds to the backward of the others is their
            ``COMMUNICATION``; where the backward is not shorter without it, nothing is.
    """
    if num_processes == 1:
        return typical(steps)
    means, local = typical(steps[::2]), typical(steps[1::2])
    for name in (BACKBONE_BACKWARD, HEADS_BACKWARD):
        added = max(0.0, means[name] - local[name])
        means[name] -= added
        means[COMMUNICATION] += added
    return means


def typical(steps: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Average the middle half of the steps, so that a step that was disturbed does not count.

    Whole steps are chosen, by their length: so the phases' means sum to the steps' mean.

    Args:
        steps: Nanoseconds per phase of each step; at least one step.

    Returns:
        Milliseconds of all ``PHASES``, and of what else the model has names for.
    """
    ranked = sorted(steps, key=lambda times: sum(times.values()))
    cut = len(ranked) // 4
    kept = ranked[cut : len(ranked) - cut]
    names = dict.fromkeys([*PHASES, *(name for times in kept for name in times)])
    return {name: sum(times.get(name, 0) for times in kept) / len(kept) / 1e6 for name in names}


def _in_time(deadline: float) -> bool:
    """Rank 0's clock decides for all."""
    decision = torch.tensor(float(time.perf_counter() < deadline), device=get_device())
    broadcast(decision)
    return bool(decision)
