"""What a profile holds: the setting, the cost of loading an image, the phases of a step."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ..functional import phases
from ..system.environment import usable_cores
from .stopwatch import REST

PHASES = (
    *(phases.COPY, phases.AUGMENT, phases.BACKBONE_FORWARD, phases.BACKBONE_BACKWARD),
    *(phases.HEADS_FORWARD, phases.HEADS_BACKWARD, phases.SINKHORN, phases.OPTIMIZER),
    *(phases.COMMUNICATION, REST),
)
"""The phases of SS-PRL's step in the order of the table; those of other models follow."""

HEADS = "heads"
_TABLE_NAMES = {phases.HEADS_FORWARD: HEADS, phases.HEADS_BACKWARD: HEADS}


@dataclass(frozen=True)
class Pace:
    """What a step of one process takes."""

    step_s: float  # with all its images, and with the loader's work on a CPU
    num_timed: int  # images of the steps that were timed
    batch_size: int  # images of a step in training; ``num_timed`` is less where it takes too long
    memory_bytes: float  # peak, allocated on a GPU or resident without workers on a CPU
    checkpoint_bytes: int  # model, queues of all processes and optimizer
    backbone_bytes: int  # the backbone's weights, if they are kept beside it
    device: str  # 'cpu', 'cuda', ...
    cores: int  # CPU cores that the process may use
    threads: int  # of torch, in this process
    load: float  # processes that wanted a core in the minute before
    probe_s: float = 0.0  # seconds of a probe; 0 without
    first_probes: int = 0  # probes before the training: of its own weights and of others
    validation_s: float = 0.0  # seconds of a validation; 0 without


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
    """A measured step; its times are those of rank 0."""

    setting: Setting
    num_steps: int  # measured
    loader_ms: dict[str, float]  # CPU milliseconds of one core per image, by phase
    step_ms: dict[str, float]  # wall milliseconds by phase, waiting for the device, see ``typical``
    free_step_ms: float  # wall milliseconds of a step without these waits, as in training
    activation_bytes: int  # that one step keeps for its backward pass
    peak_bytes: int  # most memory in use, allocated on the device or resident on a CPU
    checkpoint_bytes: int  # with what all processes keep
    backbone_bytes: int  # the backbone's weights

    @property
    def pace(self) -> Pace:
        """A step of the training, with all its images and its loader."""
        setting = self.setting
        timed, full = setting.batch_size, setting.config_batch_size
        fixed_s = self.step_ms[phases.OPTIMIZER] / 1000  # it does not grow with the images
        step_s = fixed_s + (self.free_step_ms / 1000 - fixed_s) * full / timed
        loading_s = sum(self.loader_ms.values()) / 1000 * full
        if setting.num_workers == 0:
            step_s += loading_s
        elif setting.device == "cpu":  # the workers share the cores with the step
            step_s += loading_s / setting.cores
        else:  # the step hides the loading that fits into it
            step_s = max(step_s, loading_s / min(setting.num_workers, max(1.0, setting.cores)))
        return Pace(
            step_s=step_s,
            num_timed=timed,
            batch_size=full,
            memory_bytes=self.peak_bytes + self.activation_bytes / timed * (full - timed),
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
        return sum(self.loader_ms.values()) * self.setting.batch_size / self.free_step_ms

    @property
    def rows(self) -> list[Row]:
        """The table: the loader's phases, then the step's, whose percents sum to 100."""
        batch = self.setting.batch_size
        rows = []
        for name, ms in self.loader_ms.items():
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


def typical(steps: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Return milliseconds by phase, of the middle half of the steps: a disturbed one counts less.

    Whole steps are chosen, by their length: so the phases' means sum to the steps' mean.
    """
    ranked = sorted(steps, key=lambda times: sum(times.values()))
    cut = len(ranked) // 4
    kept = ranked[cut : len(ranked) - cut]
    names = dict.fromkeys([*PHASES, *(name for times in kept for name in times)])
    return {name: sum(times.get(name, 0) for times in kept) / len(kept) / 1e6 for name in names}
