"""The benchmark as text: Markdown for people, CSV and JSON for programs; and as a picture."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from ...console.tables import markdown_table
from ...weights import RANDOM, SUPERVISED
from ..report import LEGEND, CsvRow, Panel, write_report
from ..statistics import Estimate, compare_all, estimate
from .paper_numbers import PAPER, SOURCE
from .protocols import METRICS, Size, TransferResult

Column = tuple[str, str]
"""Protocol and metric."""
ABSENT = "–"
"""A cell without a number."""
_NOISE = "The figures are noise at this size (100 training images): no difference means anything."
_SUPERVISED_HERE = (
    "Row 'supervised' was trained on the labels of all training images beforehand: its semisup-10 "
    "is not semi-supervised."
)
_TABLE_WIDTH = 120
"""Characters of a line above which a table is cut: what an editor or a page of Markdown shows."""


def write_benchmark(results: Sequence[TransferResult], size: Size, work_dir: Path) -> list[str]:
    """Write the report in all forms, and return the names of the files."""
    return write_report(
        work_dir,
        {
            "table.md": format_report(results, size),
            "results.csv": rows_of(results),
            "results.json": json.dumps([asdict(r) for r in results], indent=2) + "\n",
        },
        "benchmark.png",
        panels_of(results, size),
        title=f"Benchmark, size {size}: {LEGEND}",
        rows=order_weights(results),
    )


def panels_of(results: Sequence[TransferResult], size: Size) -> list[Panel]:
    """Return the panels of the main metrics: of each protocol the first, and AP of masks."""
    panels = []
    for (protocol, metric), values in scores_of(results).items():
        if metric in ("mAP", "AP", "mask_AP", "mIoU"):
            panels.append(
                Panel(
                    f"{protocol}, masks" if metric == "mask_AP" else protocol,
                    metric.removeprefix("mask_"),
                    {name: [(value, "") for value in own] for name, own in values.items()},
                    {"paper": PAPER["paper: SS-PRL, COCO"][protocol, metric]}
                    if size == "paper"
                    else {},
                )
            )
    return panels


def format_report(results: Sequence[TransferResult], size: Size) -> str:
    """Return the report as Markdown: tables of means over the seeds, with notes.

    Rows are weights, columns protocols and metrics; the paper's rows stand below ours in size
    ``paper``. A table that is wider than 120 characters is cut into one for each kind of protocol,
    in which rows without any number are left out.
    """
    scores, names = scores_of(results), order_weights(results)
    measured = {
        column: {name: estimate(values) for name, values in own.items()}
        for column, own in scores.items()
    }
    differences = {
        column: {k: c.difference for k, c in compare_all(own, RANDOM, ()).items()}
        for column, own in scores.items()
        if own.keys() > {RANDOM}
    }
    parts = [
        f"Size {size}, values in %: mean ± half-width of its 95 % t-interval over the seeds (one "
        "seed has none)."
    ]
    if size == "coco128":
        parts.append(_NOISE)
    rows = [[name, *_cells(measured, name, ".1f", results)] for name in names]
    if size == "paper":
        rows += [
            [name, *(f"{own[column]:.1f}" if column in own else ABSENT for column in measured)]
            for name, own in PAPER.items()
        ]
    parts += tables_of([*measured], rows)
    if size != "paper" and SUPERVISED in names:
        parts.append(_SUPERVISED_HERE)
    seeds: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for r in results:
        if r.status != "done":
            seeds[r.status, r.weights, r.protocol, " ".join(r.reason.split())].append(r.seed)
    if seeds:
        parts.append(
            "\n".join(
                f"- {status}: {weights}, {protocol}, seed {', '.join(map(str, sorted(own)))}: {why}"
                for (status, weights, protocol, why), own in seeds.items()
            )
        )
    if differences:
        parts.append(f"Difference to {RANDOM}, in percentage points, with its 95 % interval.")
        rows = [[name, *_cells(differences, name, "+.1f")] for name in names]
        parts += tables_of([*differences], rows)
    if size == "paper":
        parts.append(
            f"Rows that begin with 'paper:' are the paper's numbers ({SOURCE}); in what they are "
            "not measured as ours, docs/paper_and_code.md tells."
        )
    return "\n\n".join(parts) + "\n"


def rows_of(results: Sequence[TransferResult]) -> list[CsvRow]:
    """Return a CSV row per run and metric; a run that is not done has a row without value."""
    rows: list[CsvRow] = []
    for result in results:
        run = asdict(result)
        metrics = run.pop("metrics") or {"": ""}
        rows += [{**run, "metric": name, "value": value} for name, value in metrics.items()]
    return rows


def scores_of(results: Sequence[TransferResult]) -> dict[Column, dict[str, list[float]]]:
    """Return the values of the seeds by column, in the order of the tables, and weights."""
    asked = {result.protocol for result in results}
    scores: dict[Column, defaultdict[str, list[float]]] = {
        (protocol, metric): defaultdict(list)
        for protocol, metrics in METRICS.items()
        if protocol in asked
        for metric in metrics
    }
    for result in results:
        for metric, value in result.metrics.items():
            scores[result.protocol, metric][result.weights].append(value)
    return {column: dict(own) for column, own in scores.items()}


def order_weights(results: Sequence[TransferResult]) -> list[str]:
    """Return the names of the rows: random, supervised, then the others as they come."""
    names = dict.fromkeys(result.weights for result in results)
    return sorted(names, key=(RANDOM, SUPERVISED, *names).index)


def _cells(
    numbers: Mapping[Column, Mapping[str, Estimate]],
    name: str,
    form: str,
    results: Sequence[TransferResult] = (),
) -> list[str]:
    """Return a row's numbers, or what became of its runs; n where the rows differ in it."""
    shows_n = len({each.n for own in numbers.values() for each in own.values()}) > 1
    cells = []
    for (protocol, _), own in numbers.items():
        if name in own:
            n = f" (n={own[name].n})" if shows_n else ""
            cells.append(f"{own[name].text(form)}{n}")
        else:
            found = {r.status for r in results if (r.weights, r.protocol) == (name, protocol)}
            cells.append(min(found - {"done"}, default=ABSENT))
    return cells


def tables_of(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
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
    kept = [row for row in cells if any(cell != ABSENT for cell in row[1:])]
    # No other protocol has an AP, and six long names would be most of the table.
    heads = (" ".join(columns[place]).removeprefix("detection ") for place in places)
    return markdown_table(["weights", *heads], kept)
