"""What a profile holds: the setting, the cost of loading an image, the phases of a step."""

from dataclasses import asdict, dataclass
from typing import Any

from .loader_phases import LoaderCost
from .step_phases import BACKBONE_BACKWARD, BACKBONE_FORWARD, HEADS_BACKWARD, HEADS_FORWARD, PHASES

HEADS = "heads"
BACKBONE = "backbone"
_TABLE_NAMES = {HEADS_FORWARD: HEADS, HEADS_BACKWARD: HEADS}


@dataclass(frozen=True)
class Setting:
    """What was measured.

    Attributes:
        config: Path of the config.
        data: Where the images come from.
        num_images: Images in the data set.
        batch_size: Images per process and step.
        config_batch_size: The same, as the config asks for.
        num_processes: Processes that train together.
        num_workers: Loader processes of each, as the config asks for.
        num_small: Small views of the layout.
        num_chunks: Parts of a batch that pass the backbone one after the other.
        is_frozen: Whether prototypes do not change yet in the measured steps.
        queues_wait: Whether there are queues that do not take part yet.
        precision: 'float32', or the type that autocast computes in.
        device: 'cpu', 'cuda', ...
        threads: Threads of torch.
        cores: CPU cores for each process, its loader included.
        machine: Processor, cores, torch, accelerator.
    """

    config: str
    data: str
    num_images: int
    batch_size: int
    config_batch_size: int
    num_processes: int
    num_workers: int
    num_small: int
    num_chunks: int
    is_frozen: bool
    queues_wait: bool
    precision: str
    device: str
    threads: int
    cores: float
    machine: str


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        part: 'loader', whose CPU time runs beside the step, or 'step', whose wall time is split.
        name: The phase.
        ms_per_image: Milliseconds.
        ms_per_step: Milliseconds.
        percent: Of the step's time; of a loader's phase 100 % is one core at work all the time.
    """

    part: str
    name: str
    ms_per_image: float
    ms_per_step: float
    percent: float


@dataclass(frozen=True)
class Profile:
    """A measured step; its times are those of rank 0.

    Attributes:
        setting: What was measured.
        num_steps: Steps measured.
        asked_steps: Steps asked for.
        loader: What an image costs the loader.
        step_ms: Wall milliseconds of a step by phase, waiting for the device between phases:
            means over the middle half of the steps by length. Their sum is the step.
        free_step_ms: Wall milliseconds of a step without these waits, as in training.
        activation_bytes: What one step keeps for its backward, see ``count_saved_bytes``.
        peak_bytes: Most memory in use, allocated on the device or resident on a CPU.
    """

    setting: Setting
    num_steps: int
    asked_steps: int
    loader: LoaderCost
    step_ms: dict[str, float]
    free_step_ms: float
    activation_bytes: int
    peak_bytes: int

    @property
    def images_per_s(self) -> float:
        """Images that all processes train on in a second, if their loaders keep up."""
        return 1000 * self.setting.batch_size * self.setting.num_processes / self.free_step_ms

    @property
    def loader_images_per_s(self) -> float:
        """Images that one core loads in a second."""
        return 1000 / self.loader.worker_ms

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
        merged: dict[str, float] = {}
        for name in PHASES:
            shown = _TABLE_NAMES.get(name, name)
            merged[shown] = merged.get(shown, 0.0) + self.step_ms[name]
        total = sum(self.step_ms.values())
        for name, ms in merged.items():
            rows.append(Row("step", name, ms / batch, ms, 100 * ms / total))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, for JSON."""
        return {
            **asdict(self),
            "rows": [asdict(row) for row in self.rows],
            "images_per_s": self.images_per_s,
            "loader_images_per_s_per_core": self.loader_images_per_s,
            "cores_needed": self.cores_needed,
            "activation_bytes_per_image": self.activation_bytes / self.setting.batch_size,
        }


def dominant(profile: Profile) -> tuple[str, float]:
    """Return the largest part of the step, backbone taken as one, and its percent."""
    parts: dict[str, float] = {}
    for row in profile.rows:
        if row.part == "step":
            is_backbone = row.name in (BACKBONE_FORWARD, BACKBONE_BACKWARD)
            name = BACKBONE if is_backbone else row.name
            parts[name] = parts.get(name, 0.0) + row.percent
    return max(parts.items(), key=lambda item: item[1])
