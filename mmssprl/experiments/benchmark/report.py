"""The results of a benchmark as a table in Markdown and as CSV."""

from collections.abc import Mapping, Sequence

from ...console.tables import markdown_table
from ...weights import RANDOM, SUPERVISED, WORDS
from ..options import BenchmarkSize
from ..report import CsvRow
from ..statistics import compare_all, estimate
from .protocols import METRICS, Results

Column = tuple[str, str]
"""Protocol and metric."""
ABSENT = "–"
"""A cell without a number."""
_NOISE = "Size coco128 has 100 training images: the differences are noise."
_SUPERVISED_HERE = (
    "Row 'supervised' was trained on the labels of all training images before: its semisup-10 is "
    "not semi-supervised."
)


def format_report(results: Results, size: BenchmarkSize) -> str:
    """Return tables of means over the seeds and of differences to random weights as Markdown."""
    scores = scores_of(results)
    names = dict.fromkeys(run.weights for run, _ in results)
    rows = sorted(names, key=(*WORDS, *names).index)
    parts = [f"Size {size}, values in %: mean ± half-width of the 95 % t-interval over the seeds."]
    if size == "coco128":
        parts.append(_NOISE)
    cells = {c: {k: estimate(x).text() for k, x in own.items()} for c, own in scores.items()}
    parts.append(table_of(cells, rows))
    if size != "paper" and SUPERVISED in rows:
        parts.append(_SUPERVISED_HERE)
    differences = {
        column: {name: found.text for name, found in compare_all(own, RANDOM, ()).items()}
        for column, own in scores.items()
        if own.keys() > {RANDOM}
    }
    if differences:
        parts.append(f"Difference to {RANDOM}, in percentage points, with its 95 % interval.")
        parts.append(table_of(differences, rows))
    return "\n\n".join(parts) + "\n"


def rows_of(results: Results) -> list[CsvRow]:
    """Return a CSV row per run and metric; a failed run has one row without a value."""
    return [
        {
            "protocol": run.protocol.name,
            "weights": run.weights,
            "seed": run.seed,
            "seconds": outcome.seconds,
            "status": "failed" if outcome.reason else "done",
            "reason": outcome.reason,
            "metric": name,
            "value": value,
        }
        for run, outcome in results
        for name, value in (outcome.values or {"": ""}).items()
    ]


def scores_of(results: Results) -> dict[Column, dict[str, list[float]]]:
    """Return the values over the seeds by column, in the order of the tables, then by weights."""
    asked = {run.protocol.name for run, _ in results}
    columns = [(name, metric) for name in METRICS if name in asked for metric in METRICS[name]]
    scores: dict[Column, dict[str, list[float]]] = {column: {} for column in columns}
    for run, outcome in results:
        for metric, value in outcome.values.items():
            scores[run.protocol.name, metric].setdefault(run.weights, []).append(value)
    return scores


def table_of(cells: Mapping[Column, Mapping[str, str]], rows: Sequence[str]) -> str:
    """Return a table of the rows that have any cell; ``cells`` are by column, then by row."""
    kept = [row for row in rows if any(row in own for own in cells.values())]
    lines = [[row, *(own.get(row, ABSENT) for own in cells.values())] for row in kept]
    # Six columns with "detection" would fill the table, and no other protocol has an AP.
    heads = (" ".join(column).removeprefix("detection ") for column in cells)
    return markdown_table(["weights", *heads], lines)
