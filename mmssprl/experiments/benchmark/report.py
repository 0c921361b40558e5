"""The benchmark as text: Markdown for people, CSV and JSON for programs; and as a picture."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from ...console.tables import csv_table, markdown_table
from ...system.outputs import write_figure, write_whole
from ..figure import LEGEND, Panel, draw_panels
from ..statistics import Estimate
from .paper_numbers import PAPER, SOURCE, notes
from .results import (
    BASELINE,
    METRICS,
    Key,
    Size,
    TransferResult,
    against_baseline,
    aggregate,
    order_protocols,
    order_weights,
)

Column = tuple[str, str]
"""Protocol and metric."""

_ABSENT = "–"
"""A cell without a number."""
_COCO128_IS_NOISE = (
    "The figures are noise at this size (100 training images): no difference between rows means "
    "anything."
)
_NOT_COMPARABLE = (
    f"The paper's numbers ({SOURCE}) are for full-size data and ResNet-50; they are not "
    "comparable with the measured ones above."
)
_SUPERVISED_HERE = (
    "Row 'supervised' was trained on the labels of all training images beforehand: its semisup-10 "
    "is not semi-supervised."
)
_SIDE_BY_SIDE = f"Rows that begin with 'paper:' are the paper's numbers ({SOURCE}). About them:"
_SUBTITLES = {
    "paper": "dashed: the paper's SS-PRL, pre-trained on COCO",
    "scenes": "not comparable with the paper's numbers",
    "coco128": "noise at this size, 100 training images",
}
_PAPER_ROW = "paper: SS-PRL, COCO"

_CSV_COLUMNS = ("weights", "protocol", "seed", "status", "metric", "value", "seconds", "reason")

_TABLE_WIDTH = 120
"""Characters of a line above which a table is cut: what an editor or a page of Markdown shows."""


def write_report(results: Sequence[TransferResult], size: Size, work_dir: Path) -> list[str]:
    """Write the report in all forms, with a figure.

    Returns:
        The names of the files.
    """
    texts = {
        "table.md": format_report(results, size),
        "results.csv": format_csv(results),
        "results.json": format_json(results),
    }
    for name, text in texts.items():
        write_whole(work_dir / name, text)
    title = f"Benchmark, size {size}: {LEGEND}\n{_SUBTITLES[size]}"
    figure = draw_panels(panels_of(results, size), order_weights(results), title)
    write_figure(work_dir / "benchmark.png", figure)
    return [*texts, "benchmark.png"]


def panels_of(results: Sequence[TransferResult], size: Size) -> list[Panel]:
    """Return the panels of the main metrics: of each protocol the first, and AP of masks."""
    panels = []
    for protocol in order_protocols(results):
        own = [result for result in results if result.protocol == protocol]
        for metric in (m for m in METRICS[protocol] if m in ("mAP", "AP", "mask_AP", "mIoU")):
            dots: dict[str, list[tuple[float, str]]] = {}
            for result in own:
                if metric in result.metrics:
                    dots.setdefault(result.weights, []).append((result.metrics[metric], ""))
            missing = {name: _status(own, name, protocol) for name in order_weights(own)}
            panels.append(
                Panel(
                    f"{protocol}, masks" if metric == "mask_AP" else protocol,
                    metric.removeprefix("mask_"),
                    dots,
                    {"paper": PAPER[_PAPER_ROW][protocol][metric]} if size == "paper" else {},
                    missing,
                )
            )
    return panels


def format_report(results: Sequence[TransferResult], size: Size) -> str:
    """Return the report as Markdown: tables of means over the seeds, with notes.

    Rows are weights, columns protocols and metrics. In size ``paper`` the paper's rows stand in
    the same table, otherwise in one of their own. The best mean of a column, as printed, is bold;
    where rows differ in their numbers of seeds, only those with the most seeds compete. A table
    that is wider than 120 characters is cut into one for each kind of protocol, in which rows
    without any number are left out.

    Args:
        results: At least one, at most one per weights, protocol and seed.
        size: Of the data that they were measured on.
    """
    estimates, differences = aggregate(results), against_baseline(results)
    names = order_weights(results)
    columns = [
        (protocol, metric) for protocol in order_protocols(results) for metric in METRICS[protocol]
    ]
    best = _best(names, estimates, columns)
    among = " among the rows with the most seeds" if _show_n(estimates) else ""
    bold = f" Bold: the best measured value of its column{among}." if best else ""
    measured = [
        [name, *(_cell(results, estimates, (name, *column), best) for column in columns)]
        for name in names
    ]
    paper = [
        [name, *(f"{n[p][m]:.1f}" if m in n.get(p, {}) else _ABSENT for p, m in columns)]
        for name, n in PAPER.items()
        if any(protocol in n for protocol, _ in columns)
    ]
    parts = [f"Size {size}, values in %: {_seeds(estimates)}.{bold}"]
    if size == "coco128":
        parts.append(_COCO128_IS_NOISE)
    parts += _tables(columns, measured + (paper if size == "paper" else []))
    if size != "paper" and "supervised" in names:
        parts.append(_SUPERVISED_HERE)
    parts += filter(None, [_problems(results)])
    if differences:
        among_them = [column for column in columns if any(k[1:] == column for k in differences)]
        rows = [
            [name, *(_number(differences, (name, *column), "+.1f") for column in among_them)]
            for name in names
            if any(key[0] == name for key in differences)
        ]
        parts.append(f"Difference to {BASELINE}, in percentage points: {_seeds(differences)}.")
        parts += _tables(among_them, rows)
    parts += [_SIDE_BY_SIDE] if size == "paper" else [_NOT_COMPARABLE, *_tables(columns, paper)]
    about = notes({protocol for protocol, _ in columns}, comparable=size == "paper")
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in about)]) + "\n"


def format_csv(results: Sequence[TransferResult]) -> str:
    """Return a line per run and metric; a run that is not done has a line without value."""
    rows: list[tuple[object, ...]] = []
    for result in results:
        start = (result.weights, result.protocol, result.seed, result.status)
        end = (result.seconds, result.reason)
        rows += [(*start, *pair, *end) for pair in result.metrics.items() or [("", "")]]
    return csv_table(_CSV_COLUMNS, rows)


def format_json(results: Sequence[TransferResult]) -> str:
    """Return a list of the fields of ``TransferResult``."""
    return json.dumps([asdict(result) for result in results], indent=2, allow_nan=False) + "\n"


def _tables(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one table, or one for each kind of protocol if that is too wide."""
    whole = _table(columns, rows, range(len(columns)))
    if len(whole.partition("\n")[0]) <= _TABLE_WIDTH:
        return [whole]

    def kind(place: int) -> tuple[str, bool]:
        protocol, metric = columns[place]
        return protocol.partition("-")[0], metric.startswith("mask_")

    groups = groupby(range(len(columns)), kind)
    return [_table(columns, rows, [*places]) for _, places in groups]


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], places: Sequence[int]) -> str:
    cells = [[row[0], *(row[1 + place] for place in places)] for row in rows]
    kept = [row for row in cells if any(cell != _ABSENT for cell in row[1:])]
    return markdown_table(["weights", *(_head(*columns[place]) for place in places)], kept)


def _head(protocol: str, metric: str) -> str:
    if protocol != "detection":
        return f"{protocol} {metric}"
    # Six long names would be most of the table, and no other protocol has boxes or masks.
    part, _, name = metric.rpartition("_")
    return f"{part or 'box'} {name}"


def _cell(
    results: Sequence[TransferResult], estimates: Mapping[Key, Estimate], key: Key, best: set[Key]
) -> str:
    if key in best:
        return f"**{_number(estimates, key, '.1f')}**"
    if key in estimates:
        return _number(estimates, key, ".1f")
    return _status(results, *key[:2]) or _ABSENT


def _status(results: Sequence[TransferResult], weights: str, protocol: str) -> str:
    """Return why a row has no number of a protocol; empty if a run is done, or there is none."""
    found = {r.status for r in results if (r.weights, r.protocol) == (weights, protocol)}
    if "done" in found:
        return ""
    return next((status for status in ("failed", "skipped") if status in found), "")


def _best(
    names: Sequence[str], estimates: Mapping[Key, Estimate], columns: Sequence[Column]
) -> set[Key]:
    best: set[Key] = set()
    for column in columns:
        keys = [(name, *column) for name in names if (name, *column) in estimates]
        most = max((estimates[key].n for key in keys), default=0)
        rivals = {key: round(estimates[key].mean, 1) for key in keys if estimates[key].n == most}
        if len(rivals) > 1:
            best |= {key for key, value in rivals.items() if value == max(rivals.values())}
    return best


def _problems(results: Sequence[TransferResult]) -> str:
    """Return a list of the runs that are not done."""
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for result in results:
        if result.status != "done":
            # A list item is one line, whatever an exception says.
            reason = " ".join(result.reason.split())
            run = (result.status, result.weights, result.protocol, reason)
            seeds.setdefault(run, []).append(result.seed)
    lines = []
    for (status, weights, protocol, reason), found in seeds.items():
        numbers = ", ".join(map(str, sorted(found)))
        seed = "seed" if len(found) == 1 else "seeds"
        # Quoted, so that its <, * and _ stay what they are.
        quoted = f"`` {reason} ``" if "`" in reason else f"`{reason}`"
        lines.append(f"- {status}: {weights}, {protocol}, {seed} {numbers}: {quoted}")
    return "\n".join(lines)


def _seeds(estimates: Mapping[Key, Estimate]) -> str:
    counts = {each.n for each in estimates.values()}
    if not counts:
        return "no run is done"
    if counts == {1}:
        return "one seed, so that no interval is known"
    if len(counts) == 1:
        return f"mean ± half-width of its 95 % t-interval over {counts.pop()} seeds"
    alone = "; one seed has no interval" if 1 in counts else ""
    return f"mean ± half-width of its 95 % t-interval over n seeds{alone}"


def _show_n(estimates: Mapping[Key, Estimate]) -> bool:
    return len({each.n for each in estimates.values()}) > 1


def _number(estimates: Mapping[Key, Estimate], key: Key, form: str) -> str:
    if key not in estimates:
        return _ABSENT
    text = estimates[key].text(form)
    return f"{text} (n={estimates[key].n})" if _show_n(estimates) else text
