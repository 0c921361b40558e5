"""Measure where the time of a pre-training step goes, and what loading its images costs."""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import broadcast, get_world_size
from mmengine.optim import AmpOptimWrapper
from mmengine.registry import DefaultScope

from ..engine.build_errors import explain_build_errors
from ..engine.launch import Launcher
from ..engine.pretrain_checks import check_pretraining
from ..errors import UserValueError
from .clock import PhaseClock
from .loader_phases import measure_loader
from .machine import describe_machine, peak_bytes, reset_peak_bytes, usable_cores
from .parts import Parts, build_parts, choose_batch_size, process_group, read_config
from .result import Profile, Setting
from .saved_bytes import count_saved_bytes
from .step_phases import BACKBONE_BACKWARD, COMMUNICATION, HEADS_BACKWARD, PHASES, phases_of

TIME_LIMIT_S = 160.0
"""Fewer steps are measured than asked for if they and the warm-up take longer; the first step,
which may compile, is not counted. With it a CPU run of ResNet-50 stays below four minutes."""

_WARMUP_STEPS = 2
"""Besides the one that counts activations: compilers, cuDNN's choice, memory pools are done."""

_PROGRESS_S = 15.0

Log = Callable[[str], object]


def profile_training(
    config: str | Path,
    *,
    data: str | Path | None = None,
    steps: int = 30,
    batch_size: int | None = None,
    amp: bool = False,
    compile: bool = False,
    cfg_options: Mapping[str, Any] | None = None,
    launcher: Launcher = "none",
    time_limit_s: float = TIME_LIMIT_S,
    log: Log = lambda line: None,
) -> Profile:
    """Run some steps of a pre-training, from random weights, and split their time.

    The images are loaded first, in this process on one thread, and the steps then take them from
    memory: so a step never waits for its loader here. Nothing is written.

    Args:
        config: Pre-training config.
        data: Replaces ``train_dataloader.dataset.data_root``.
        steps: Steps to measure >= 1, or >= 2 with several processes, where every other one leaves
            out the gradients' all-reduce.
        batch_size: Images per process and step; None takes the config's, or 2 on a CPU.
        amp: Use mixed precision.
        compile: Compile backbone and augmentation.
        cfg_options: Values by dotted key that replace the config's.
        launcher: What started the processes; every one of them calls this.
        time_limit_s: Seconds from the end of the first step after which no step begins, but for
            the least number.
        log: Receives lines of progress.

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
    # The scope first: the config's model is looked up in it.
    with DefaultScope.overwrite_default_scope("mmssprl"):
        cfg = read_config(
            config,
            data=data,
            amp=amp,
            compile=compile,
            cfg_options=cfg_options,
            launcher=launcher,
        )
        config_batch_size = cfg.train_dataloader.batch_size
        cfg.train_dataloader.batch_size = chosen = choose_batch_size(cfg, batch_size)
        check_pretraining(cfg)  # once more, with this batch
        if batch_size is None and chosen != config_batch_size:
            log(
                f"{chosen} images a step: the config's {config_batch_size} could take minutes on "
                "a CPU; --batch-size sets the number"
            )
        with process_group(launcher), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same crops' augmentations, so the same work, in every run
            with explain_build_errors(cfg):
                parts = build_parts(cfg)
            return _measure(cfg, parts, config_batch_size, steps, time_limit_s, log)


def _measure(
    cfg: Config, parts: Parts, config_batch_size: int, steps: int, time_limit_s: float, log: Log
) -> Profile:
    device, model = get_device(), parts.model
    use_workers = cfg.train_dataloader.get("num_workers", 0) > 0
    log(f"loading images of {parts.dataset.data_prefix['img_path']}")
    loader, batches = measure_loader(
        parts.dataset,
        parts.indices,
        parts.collate,
        batch_size=parts.batch_size,
        use_workers=use_workers,
    )
    if cfg.train_dataloader.get("pin_memory") and device.startswith("cuda"):
        batches = [{"inputs": [t.pin_memory() for t in batch["inputs"]]} for batch in batches]
    log(f"{loader.num_images} images loaded; {1 + _WARMUP_STEPS} steps to warm up")
    synchronize = torch.get_device_module(device).synchronize

    def step(number: int) -> None:
        model.train_step(batches[number % len(batches)], optim_wrapper=parts.optim_wrapper)

    activation_bytes = count_activations(parts, batches[0])
    deadline = time.perf_counter() + time_limit_s
    for number in range(_WARMUP_STEPS):
        step(number)
    reset_peak_bytes(device)
    clock = PhaseClock(synchronize=synchronize)
    with phases_of(clock, parts.core, parts.optim_wrapper):
        times = _timed_steps(clock, model, step, steps, deadline, log)
    if len(times) < steps:
        log(f"only {len(times)} of {steps} steps fit into {time_limit_s:.0f} s")
    step_ms = mean_phases(times, get_world_size())
    free_step_ms = sum(step_ms.values())
    if device != "cpu":
        start = time.perf_counter()
        for number in range(len(times)):
            step(number)
        synchronize()
        free_step_ms = 1000 * (time.perf_counter() - start) / len(times)
    return Profile(
        setting=_setting(cfg, parts, config_batch_size),
        num_steps=len(times),
        asked_steps=steps,
        loader=loader,
        step_ms=step_ms,
        free_step_ms=free_step_ms,
        activation_bytes=activation_bytes,
        peak_bytes=peak_bytes(device),
    )


def mean_phases(steps: Sequence[Mapping[str, int]], num_processes: int) -> dict[str, float]:
    """Return milliseconds per phase of a step as in training.

    Args:
        steps: Nanoseconds per phase of each step.
        num_processes: If there are several, every other step, the second first, had no all-reduce
            of the gradients: it only tells what that adds to the others.
    """
    if num_processes == 1:
        return typical(steps)
    return without_all_reduce(typical(steps[::2]), typical(steps[1::2]))


def typical(steps: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Average the middle half of the steps, so that a step that was disturbed does not count.

    Whole steps are chosen, by their length: so the phases' means sum to the steps' mean.

    Args:
        steps: Nanoseconds per phase of each step; at least one step.

    Returns:
        Milliseconds of all ``PHASES``.
    """
    ranked = sorted(steps, key=lambda times: sum(times.values()))
    cut = len(ranked) // 4
    kept = ranked[cut : len(ranked) - cut]
    return {name: sum(times.get(name, 0) for times in kept) / len(kept) / 1e6 for name in PHASES}


def without_all_reduce(synced: Mapping[str, float], local: Mapping[str, float]) -> dict[str, float]:
    """Move what the gradients' all-reduce adds to the backward into ``COMMUNICATION``.

    Args:
        synced: Milliseconds per phase of steps with it; the sum stays.
        local: The same of steps without it. Where the backward is not shorter nothing moves.
    """
    result = dict(synced)
    for name in (BACKBONE_BACKWARD, HEADS_BACKWARD):
        added = max(0.0, synced[name] - local[name])
        result[name] -= added
        result[COMMUNICATION] += added
    return result


def _setting(cfg: Config, parts: Parts, config_batch_size: int) -> Setting:
    head, wrapper = parts.core.head, parts.optim_wrapper
    is_amp = isinstance(wrapper, AmpOptimWrapper)
    device = get_device()
    return Setting(
        config=str(cfg.filename),
        data=str(Path(parts.dataset.data_prefix["img_path"])),
        num_images=len(parts.dataset),
        batch_size=parts.batch_size,
        config_batch_size=config_batch_size,
        num_processes=get_world_size(),
        num_workers=cfg.train_dataloader.get("num_workers", 0),
        num_small=parts.core.layout.num_small,
        num_chunks=getattr(parts.core, "num_chunks", 1),
        is_frozen=head.is_frozen,
        queues_wait=any(
            queue is not None and not (queue.is_full and head.uses_queues) for queue in head.queues
        ),
        precision=str(wrapper.cast_dtype).removeprefix("torch.") if is_amp else "float32",
        device=device,
        threads=torch.get_num_threads(),
        cores=usable_cores() / int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        machine=describe_machine(device),
    )


def count_activations(parts: Parts, batch: dict) -> int:
    """Run a whole step, counting what its forward keeps for its backward."""
    with parts.optim_wrapper.optim_context(parts.model):
        inputs = parts.core.data_preprocessor(batch, True)
        losses, num_bytes = count_saved_bytes(
            parts.core, lambda: parts.model(**inputs, mode="loss")
        )
    loss, _ = parts.core.parse_losses(losses)
    parts.optim_wrapper.update_params(loss)
    return num_bytes


def _timed_steps(
    clock: PhaseClock,
    model: Any,
    step: Callable[[int], None],
    num_steps: int,
    deadline: float,
    log: Log,
) -> list[Counter[str]]:
    """Nanoseconds per phase of each step; of several processes odd steps do not all-reduce."""
    all_times: list[Counter[str]] = []
    least = min(2, get_world_size())
    start = said = time.perf_counter()
    for number in range(num_steps):
        if number >= least and not _in_time(deadline):
            break
        is_local = get_world_size() > 1 and number % 2 == 1
        with model.no_sync() if is_local else nullcontext(), clock.step() as times:
            step(number)
        all_times.append(times)
        now = time.perf_counter()
        if number == 0 or now - said > _PROGRESS_S:
            left = (num_steps - number - 1) * (now - start) / (number + 1)
            left = max(0.0, min(left, deadline - now))
            log(f"step {number + 1} of {num_steps}, at most {left:.0f} s left")
            said = now
    return all_times


def _in_time(deadline: float) -> bool:
    """Rank 0's clock decides for all."""
    decision = torch.tensor(float(time.perf_counter() < deadline), device=get_device())
    broadcast(decision)
    return bool(decision)
