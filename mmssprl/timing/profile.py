"""Measure where the time of a pre-training step goes, and lay it out for a person."""

import os
from collections import Counter
from collections.abc import Callable
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import DefaultScope

from ..config.pretrain_checks import check_pretraining
from ..console.tables import aligned_pairs, csv_table, markdown_table
from ..console.wording import counted
from ..engine.launch import Launcher, run
from ..errors import UserFileNotFoundError, UserValueError
from ..functional.phases import AUGMENT, COMMUNICATION, COPY, OPTIMIZER, SINKHORN
from ..models import PretrainingModel, pretraining_class
from .result import HEADS, Profile, Row
from .stopwatch import DECODE
from .training import MeasuringHook, for_measuring, read_config

TIME_LIMIT_S = 160.0
"""Fewer steps are measured than asked for if they take longer; those that warm up and choose the
threads do not count. With it a CPU run of ResNet-50 stays below four minutes."""


def profile_training(
    config: str | Path,
    *,
    steps: int = 30,
    batch_size: int | None = None,
    launcher: Launcher = "none",
    time_limit_s: float = TIME_LIMIT_S,
    log: Callable[[str], object] = lambda line: None,
    **options: Any,
) -> Profile:
    """Run some steps of a pre-training, from random weights, and split their time.

    The images are loaded first, in this process on one thread, and the steps then take them from
    memory: so a step never waits for its loader here. Nothing is written.

    Args:
        config: Pre-training config.
        steps: Steps to measure >= 1.
        batch_size: Images per process and step; None takes the config's, or a few on a CPU.
        launcher: What started the processes; every one of them calls this.
        time_limit_s: Seconds after which no step begins, but for the least number.
        log: Receives lines of progress.
        options: ``data``, ``cfg_options``, ``amp`` and ``compile``, see ``read_config``.

    Raises:
        FileNotFoundError: No such config or images.
        RuntimeError: ``compile`` where torch.compile cannot work.
        ValueError: No pre-training config, a number out of its range, more images per step than
            there are, a batch that ``model.num_chunks`` does not divide, or ``amp`` without an
            accelerator.
    """
    if steps < 1:
        raise UserValueError(f"steps must be >= 1, but got {steps}.")
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
                "a CPU, unless a batch size is given"
            )
        log(f"loading images of {cfg.train_dataloader.dataset.get('data_root')}")
        hook = MeasuringHook(whole, steps, time_limit_s, load=os.getloadavg()[0], log=log)
        try:
            run(cfg, "train", hooks=[hook], keep_record=False)
        except UserFileNotFoundError as error:
            hint = "or give the folder of images as data."
            raise UserFileNotFoundError(f"{str(error).rstrip('.')}, {hint}") from error
    return hook.profile


def choose_batch_size(cfg: Config, batch_size: int | None) -> int:
    """Return the images per process and step: those that are asked for, or the config's.

    On a CPU, where an image of the full-size configs takes about 5 s a core, these are as few as
    the model can be trained with.
    """
    if batch_size is not None and batch_size < 1:
        raise UserValueError(f"batch_size must be >= 1, but got {batch_size}.")
    chosen = batch_size or cfg.train_dataloader.batch_size
    if batch_size or get_device() != "cpu":
        return chosen
    method = pretraining_class(cfg) or PretrainingModel
    return min(chosen, method.batch_unit(cfg.model))


_BACKBONE = "backbone"
_NOTICEABLE = 0.05  # share of a step from which something is worth an advice
_HINTS = {
    _BACKBONE: "that is the work itself; on a GPU --amp, and --compile where it is taken, help",
    AUGMENT: "--compile fuses it on a GPU",
    HEADS: "fewer prototypes or a smaller neck.hid_channels make it faster",
    SINKHORN: "fewer prototypes or shorter queues make it faster",
    COPY: "set train_dataloader.pin_memory=True",
    **dict.fromkeys((OPTIMIZER, COMMUNICATION), "a larger batch shares it among more images"),
}


def format_profile(profile: Profile) -> str:
    """Return the table, how it was measured, and the advice."""
    rows = []
    for part, title in (("loader", "loader, CPU time"), ("step", "step, wall time")):
        of_part = [row for row in profile.rows if row.part == part]
        _, _, *numbers = zip(*of_part, strict=True)
        total = Row(part, "sum", *map(sum, numbers))
        cells = [_cells(row, profile) for row in [*of_part, total]]
        rows += [[title, *cells[0]], *(["", *rest] for rest in cells[1:])]
    heads = ["", "", "ms/image", "ms/step", "% of step"]
    below = {"measured": _how(profile), "advice": advise(profile)}
    return f"{markdown_table(heads, rows, num_left=2)}\n\n{aligned_pairs(below)}"


def format_csv(profile: Profile) -> str:
    """Return the rows of the table as CSV."""
    heads = ["part", "phase", "ms_per_image", "ms_per_step", "percent_of_step"]
    rows = [[part, name, *(f"{ms:.6g}" for ms in numbers)] for part, name, *numbers in profile.rows]
    return csv_table(heads, rows)


def advise(profile: Profile) -> str:
    """Say in one line what to do if the loader holds the step up, or else what dominates it."""
    setting, needed = profile.setting, profile.cores_needed
    if setting.num_workers == 0 and needed > _NOTICEABLE:
        return (
            f"the loader adds {100 * needed:.0f} % to every step, because "
            f"train_dataloader.num_workers=0; set it to {ceil(needed)}."
        )
    if needed > max(1, setting.num_workers):
        there = f"train_dataloader.num_workers={setting.num_workers}"
    elif needed > setting.cores:
        there = f"each process has {setting.cores:g} cores"
    else:
        name, percent = _dominant(profile)
        hint = f": {_HINTS[name]}" if name in _HINTS else ""
        return f"the step, not its loader, sets the pace; {name} takes {percent:.0f} %{hint}."
    decoding = 100 * profile.loader_ms[DECODE] / sum(profile.loader_ms.values())
    return (
        f"the loader is the bottleneck: it needs {needed:.1f} cores to keep up, but {there}; give "
        f"it {ceil(needed)} cores and as many workers (reading and decoding is {decoding:.0f} % "
        "of it; images in one file, `tar cf photos.tar photos/`, are read faster from a slow disk)."
    )


def _dominant(profile: Profile) -> tuple[str, float]:
    """Return the largest part of the step, backbone taken as one, and its percent."""
    parts: Counter[str] = Counter()
    for row in profile.rows:
        if row.part == "step":
            name = _BACKBONE if row.name.startswith(_BACKBONE) else row.name
            parts[name] += row.percent  # type: ignore[assignment]
    return parts.most_common(1)[0]


def _cells(row: Row, profile: Profile) -> list[str]:
    if row.name == COMMUNICATION and profile.setting.num_processes == 1:
        return [f"{row.name} (one process)", "0", "0", "0"]
    return [row.name, f"{row.ms_per_image:.2f}", f"{row.ms_per_step:.2f}", f"{row.percent:.1f}"]


def _how(profile: Profile) -> str:
    """The speed, machine, batch and memory, in one line."""
    setting = profile.setting
    kind = "resident" if setting.device == "cpu" else "allocated"
    words = [
        f"{profile.images_per_s:.3g} images/s",
        setting.machine,
        counted(setting.threads, "thread"),
        f"{setting.device}, {setting.precision}",
        f"{setting.batch_size} images a step and process x {setting.num_processes}",
        counted(profile.num_steps, "step"),
        f"{profile.peak_bytes / 2**20:,.0f} MiB {kind}",
    ]
    if setting.batch_size != setting.config_batch_size:
        words.append(f"the config's batch is {setting.config_batch_size}")
    return "; ".join(words)
