"""Lay out a profile for a terminal, a CSV file, and in a line of advice."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

from ..console.tables import aligned_pairs, csv_table, markdown_table
from ..console.wording import counted
from ..functional.phases import AUGMENT, COMMUNICATION, COPY, OPTIMIZER, SINKHORN
from .result import HEADS, Profile, Row
from .stopwatch import DECODE

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
        cells = [_cells(row, profile) for row in [*of_part, _sum(of_part)]]
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


def _sum(rows: Sequence[Row]) -> Row:
    _, _, *numbers = zip(*rows, strict=True)
    return Row(rows[0].part, "sum", *map(sum, numbers))


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
