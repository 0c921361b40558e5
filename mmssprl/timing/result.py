"""What a profile holds: the setting, the cost of loading an image, the phases of a step."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ..functional import phases
from ..system.environment import usable_cores
from .clock import REST
from .loader_phases import LoaderCost
from .pace import Pace, scaled, with_loader

PHASES = (
    phases.COPY,
    phases.AUGMENT,
    phases.BACKBONE_FORWARD,
    phases.BACKBONE_BACKWARD,
    phases.HEADS_FORWARD,
    phases.HEADS_BACKWARD,
    phases.SINKHORN,
    phases.OPTIMIZER,
    phases.COMMUNICATION,
    REST,
)
"""The phases of SS-PRL's step in the order of the table; those of other models follow."""

HEADS = "heads"
BACKBONE = "backbone"
_TABLE_NAMES = {phases.HEADS_FORWARD: HEADS, phases.HEADS_BACKWARD: HEADS}


@dataclass(frozen=True)
class Setting:
    """What was measured."""

    config: str  # its path
    data: str  # where the images come from
    num_images: int  # of the data set
    batch_size: int  # images per process and step
    config_batch_size: int  # the same, as the config asks for
    max_epochs: int | None  # of the training, None if it counts iterations
    checkpoint: dict[str, Any]  # the config's checkpoint hook
    num_processes: int  # that train together
    num_workers: int  # loader processes of each, as the config asks for
    num_small: int  # small views of the layout
    precision: str  # 'float32', or the type that autocast computes in
    device: str  # 'cpu', 'cuda', ...
    threads: int  # of torch
    load: float  # processes that wanted a core in the minute before
    cores: float  # CPU cores for each process, its loader included
    machine: str  # processor, cores, torch, accelerator


class Row(NamedTuple):
    """One line of the table."""

    part: str  # 'loader', whose CPU time runs beside the step, or 'step', whose wall time is split
    name: str  # the phase
    ms_per_image: float
    ms_per_step: float
    percent: float  # of the step; 100 % of a loader's phase is one core at work all the time


@dataclass(frozen=True)
class Profile:
    """A measured step; its times are those of rank 0.

    Attributes:
        setting: What was measured.
        num_steps: Steps measured.
        loader: What an image costs the loader.
        step_ms: Wall milliseconds of a step by phase, waiting for the device between phases:
            means over the middle half of the steps by length. Their sum is the step.
        free_step_ms: Wall milliseconds of a step without these waits, as in training.
        activation_bytes: What one step keeps for its backward, see ``saved_bytes``.
        peak_bytes: Most memory in use, allocated on the device or resident on a CPU.
        checkpoint_bytes: Size of a checkpoint, with what all processes keep.
        backbone_bytes: Size of the backbone's weights.
    """

    setting: Setting
    num_steps: int
    loader: LoaderCost
    step_ms: dict[str, float]
    free_step_ms: float
    activation_bytes: int
    peak_bytes: int
    checkpoint_bytes: int
    backbone_bytes: int

    @property
    def pace(self) -> Pace:
        """A step of the training, with all its images and its loader."""
        setting = self.setting
        num_more = setting.config_batch_size - setting.batch_size
        step_s = scaled(
            self.free_step_ms / 1000,
            self.step_ms[phases.OPTIMIZER] / 1000,
            setting.batch_size,
            setting.config_batch_size,
        )
        return Pace(
            step_s=with_loader(
                step_s,
                sum(self.loader.ms.values()) / 1000 * setting.config_batch_size,
                num_workers=setting.num_workers,
                cores=setting.cores,
                on_gpu=setting.device != "cpu",
            ),
            num_timed=setting.batch_size,
            batch_size=setting.config_batch_size,
            memory_bytes=self.peak_bytes + self.activation_bytes / setting.batch_size * num_more,
            checkpoint_bytes=self.checkpoint_bytes,
            backbone_bytes=self.backbone_bytes,
            device=setting.device,
            cores=usable_cores(),
            threads=setting.threads,
            load=setting.load,
        )

    @property
    def images_per_s(self) -> float:
        """Images that all processes train on in a second, if their loaders keep up."""
        return 1000 * self.setting.batch_size * self.setting.num_processes / self.free_step_ms

    @property
    def cores_needed(self) -> float:
        """Cores of each process whose loader keeps up with the step."""
        return self.loader.worker_ms * self.setting.batch_size / self.free_step_ms

    @property
    def rows(self) -> list[Row]:
        """The table: the loader's phases, then the step's, whose percents sum to 100."""
        batch = self.setting.batch_size
        rows = []
        for name, ms in self.loader.ms.items():
            rows.append(Row("loader", name, ms, ms * batch, 100 * ms * batch / self.free_step_ms))
        merged: defaultdict[str, float] = defaultdict(float)
        for name, ms in self.step_ms.items():
            merged[_TABLE_NAMES.get(name, name)] += ms
        total = sum(self.step_ms.values())
        for name, ms in merged.items():
            # Not every model has every phase; of communication the table says why there is none.
            if ms > 0 or name == phases.COMMUNICATION:
                rows.append(Row("step", name, ms / batch, ms, 100 * ms / total))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, for JSON."""
        return {
            **asdict(self),
            "rows": [row._asdict() for row in self.rows],
            "images_per_s": self.images_per_s,
            "cores_needed": self.cores_needed,
        }


def dominant(profile: Profile) -> tuple[str, float]:
    """Return the largest part of the step, backbone taken as one, and its percent."""
    parts: defaultdict[str, float] = defaultdict(float)
    for row in profile.rows:
        if row.part == "step":
            is_backbone = row.name in (phases.BACKBONE_FORWARD, phases.BACKBONE_BACKWARD)
            parts[BACKBONE if is_backbone else row.name] += row.percent
    return max(parts.items(), key=lambda item: item[1])


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
    for name in (phases.BACKBONE_BACKWARD, phases.HEADS_BACKWARD):
        added = max(0.0, means[name] - local[name])
        means[name] -= added
        means[phases.COMMUNICATION] += added
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
