"""The benchmark as text: Markdown for people, CSV and JSON for programs."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ...console.tables import csv_table
from ...system.outputs import write_figure, write_whole
from ..statistics import Estimate
from .blocks import ABSENT, Column, Table, format_table
from .figure import draw_benchmark
from .paper_numbers import PAPER, SOURCE, notes
from .results import (
    BASELINE,
    METRICS,
    Key,
    Result,
    Size,
    against_baseline,
    aggregate,
    order_protocols,
    order_weights,
)

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

_CSV_COLUMNS = ("weights", "protocol", "seed", "status", "metric", "value", "seconds", "reason")

_TABLE_WIDTH = 120
"""Characters of a line of a table in a file: what an editor or a page of Markdown shows."""


def write_report(results: Sequence[Result], size: Size, work_dir: Path) -> list[str]:
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
    write_figure(work_dir / "benchmark.png", draw_benchmark(results, size))
    return [*texts, "benchmark.png"]


def format_report(results: Sequence[Result], size: Size, *, width: int | None = None) -> str:
    """Return the report as Markdown: tables of means over the seeds, with notes.

    Rows are weights, columns protocols and metrics. In size ``paper`` the paper's rows stand in
    the same table, otherwise in one of their own. The best mean of a column, as printed, is bold;
    where rows differ in their numbers of seeds, only those with the most seeds compete. A table
    that is too wide is cut into blocks of columns, in which rows without any number are left out.

    Args:
        results: At least one, at most one per weights, protocol and seed.
        size: Of the data that they were measured on.
        width: Characters of a line at a terminal, for tables and paragraphs; None, for a file, is
            120 for tables and leaves paragraphs whole.
    """
    texts = []
    for part in _report(results, size):
        if isinstance(part, tuple):
            texts += format_table(part, width or _TABLE_WIDTH)
        elif width is None:
            texts.append(part)
        else:
            texts.append("\n".join(_wrap(line, width) for line in part.splitlines()))
    return "\n\n".join(texts) + "\n"


def format_csv(results: Sequence[Result]) -> str:
    """Return a line per run and metric; a run that is not done has a line without value."""
    rows: list[tuple[object, ...]] = []
    for result in results:
        start = (result.weights, result.protocol, result.seed, result.status)
        end = (result.seconds, result.reason)
        rows += [(*start, *pair, *end) for pair in result.metrics.items() or [("", "")]]
    return csv_table(_CSV_COLUMNS, rows)


def format_json(results: Sequence[Result]) -> str:
    """Return a list of the fields of ``Result``."""
    return json.dumps([asdict(result) for result in results], indent=2, allow_nan=False) + "\n"


def _wrap(line: str, width: int) -> str:
    """Return lines of a paragraph, or of a list item whose later lines are indented."""
    return textwrap.fill(line, width, subsequent_indent="  " if line.startswith("- ") else "")


def _report(results: Sequence[Result], size: Size) -> list[str | Table]:
    estimates = aggregate(results)
    columns = [
        (protocol, metric) for protocol in order_protocols(results) for metric in METRICS[protocol]
    ]
    measured, rivalry = _measured(results, estimates, columns)
    paper = _paper(columns)
    beside = paper if size == "paper" else []
    parts: list[str | Table] = [f"Size {size}, values in %: {_seeds(estimates)}.{rivalry}"]
    if size == "coco128":
        parts.append(_COCO128_IS_NOISE)
    parts.append((columns, measured + beside))
    if size != "paper" and any(result.weights == "supervised" for result in results):
        parts.append(_SUPERVISED_HERE)
    problems = _problems(results)
    if problems:
        parts.append(problems)
    differences = against_baseline(results)
    if differences:
        parts += [
            f"Difference to {BASELINE}, in percentage points: {_seeds(differences)}.",
            _differences(order_weights(results), differences, columns),
        ]
    parts += [_SIDE_BY_SIDE] if size == "paper" else [_NOT_COMPARABLE, (columns, paper)]
    about = notes({protocol for protocol, _ in columns}, comparable=size == "paper")
    return [*parts, "\n".join(f"- {note}" for note in about)]


def _measured(
    results: Sequence[Result],
    estimates: dict[Key, Estimate],
    columns: list[Column],
) -> tuple[list[list[str]], str]:
    """Return the rows, and the sentence about bold numbers if there are any."""
    names = order_weights(results)
    best = _best(names, estimates, columns)
    statuses: dict[tuple[str, str], set[str]] = {}
    for result in results:
        statuses.setdefault((result.weights, result.protocol), set()).add(result.status)
    rows = []
    for name in names:
        cells = []
        for protocol, metric in columns:
            key = (name, protocol, metric)
            found = statuses.get((name, protocol), set())
            if key in estimates:
                cell = _number(estimates, key, ".1f")
                cells.append(f"**{cell}**" if key in best else cell)
            elif "done" in found:
                cells.append(ABSENT)
            else:
                cells.append(next((s for s in ("failed", "skipped") if s in found), ABSENT))
        rows.append([name, *cells])
    if not best:
        return rows, ""
    among = " among the rows with the most seeds" if _show_n(estimates) else ""
    return rows, f" Bold: the best measured value of its column{among}."


def _best(names: list[str], estimates: dict[Key, Estimate], columns: list[Column]) -> set[Key]:
    best: set[Key] = set()
    for column in columns:
        keys = [(name, *column) for name in names if (name, *column) in estimates]
        most = max((estimates[key].n for key in keys), default=0)
        rivals = {key: round(estimates[key].mean, 1) for key in keys if estimates[key].n == most}
        if len(rivals) > 1:
            best |= {key for key, value in rivals.items() if value == max(rivals.values())}
    return best


def _differences(
    names: list[str], differences: dict[Key, Estimate], columns: list[Column]
) -> Table:
    """Return only the rows and columns in which there is a difference."""
    columns = [column for column in columns if any(key[1:] == column for key in differences)]
    rows = [
        [name, *(_number(differences, (name, *column), "+.1f") for column in columns)]
        for name in names
        if any(key[0] == name for key in differences)
    ]
    return columns, rows


def _problems(results: Sequence[Result]) -> str:
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
        lines.append(f"- {status}: {weights}, {protocol}, {seed} {numbers}: {_code(reason)}")
    return "\n".join(lines)


def _paper(columns: list[Column]) -> list[list[str]]:
    rows = []
    for name, numbers in PAPER.items():
        values = [numbers.get(protocol, {}).get(metric) for protocol, metric in columns]
        if any(value is not None for value in values):
            rows.append([name, *(ABSENT if v is None else f"{v:.1f}" for v in values)])
    return rows


def _seeds(estimates: dict[Key, Estimate]) -> str:
    counts = {each.n for each in estimates.values()}
    if not counts:
        return "no run is done"
    if counts == {1}:
        return "one seed, so that no interval is known"
    if len(counts) == 1:
        return f"mean ± half-width of its 95 % t-interval over {counts.pop()} seeds"
    alone = "; one seed has no interval" if 1 in counts else ""
    return f"mean ± half-width of its 95 % t-interval over n seeds{alone}"


def _show_n(estimates: dict[Key, Estimate]) -> bool:
    return len({each.n for each in estimates.values()}) > 1


def _number(estimates: dict[Key, Estimate], key: Key, form: str) -> str:
    if key not in estimates:
        return ABSENT
    text = estimates[key].text(form)
    return f"{text} (n={estimates[key].n})" if _show_n(estimates) else text


def _code(text: str) -> str:
    """Quote a message, so that its <, * and _ stay what they are."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
