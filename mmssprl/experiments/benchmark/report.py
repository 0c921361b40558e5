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
    cells: dict[Column, dict[str, str]] = {}
    differences: dict[Column, dict[str, str]] = {}
    for column, own in scores.items():
        cells[column] = {name: estimate(values).text() for name, values in own.items()}
        if own.keys() > {RANDOM}:
            found = compare_all(own, RANDOM, ())
            differences[column] = {name: each.text for name, each in found.items()}

    parts.append(table_of(cells, rows))
    if size != "paper" and SUPERVISED in rows:
        parts.append(_SUPERVISED_HERE)
    if differences:
        parts.append(f"Difference to {RANDOM}, in percentage points, with its 95 % interval.")
        parts.append(table_of(differences, rows))
    return "\n\n".join(parts) + "\n"


def rows_of(results: Results) -> list[CsvRow]:
    """Return a CSV row per run and metric; a failed run has one row without a value."""
    rows: list[CsvRow] = []
    for run, outcome in results:
        of_run = {
            "protocol": run.protocol.name,
            "weights": run.weights,
            "seed": run.seed,
            "seconds": outcome.seconds,
            "status": "failed" if outcome.reason else "done",
            "reason": outcome.reason,
        }
        values = outcome.values or {"": ""}
        rows += [{**of_run, "metric": name, "value": value} for name, value in values.items()]
    return rows


def scores_of(results: Results) -> dict[Column, dict[str, list[float]]]:
    """Return the values over the seeds by column, in the order of the tables, then by weights."""
    asked = {run.protocol.name for run, _ in results}
    scores: dict[Column, dict[str, list[float]]] = {}
    for name, metrics in METRICS.items():
        if name in asked:
            scores |= {(name, metric): {} for metric in metrics}
    for run, outcome in results:
        for metric, value in outcome.values.items():
            scores[run.protocol.name, metric].setdefault(run.weights, []).append(value)
    return scores


def table_of(cells: Mapping[Column, Mapping[str, str]], rows: Sequence[str]) -> str:
    """Return a table of the rows that have any cell; ``cells`` are by column, then by row."""
    lines = []
    for row in rows:
        found = [own.get(row) for own in cells.values()]
        if any(cell is not None for cell in found):
            lines.append([row, *(ABSENT if cell is None else cell for cell in found)])
    # Six columns with "detection" would fill the table, and no other protocol has an AP.
    heads = (" ".join(column).removeprefix("detection ") for column in cells)
    return markdown_table(["weights", *heads], lines)
