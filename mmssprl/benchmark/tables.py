"""The benchmark as text for people (Markdown, terminal) and for programs (CSV, JSON)."""

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ..errors import UserFileExistsError
from .layout import ABSENT, Row, Table, markdown_table, terminal_table
from .paper_numbers import SOURCE, notes, paper_rows
from .results import (
    BASELINE,
    METRICS,
    Key,
    Profile,
    Result,
    Spread,
    against_baseline,
    aggregate,
    check_report,
    order_protocols,
    order_weights,
)

COCO128_IS_NOISE = (
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
_SIDE_BY_SIDE = f"Rows that begin with 'paper:' are the paper's numbers ({SOURCE})."

_TERMINAL_COLUMNS = 120
_CSV_COLUMNS = ("weights", "protocol", "seed", "status", "metric", "value", "seconds", "reason")


_Column = tuple[str, str]
"""Protocol and metric."""

_Problem = tuple[str, str]
"""Name of a run and why it is not done."""

_Part = str | Table | list[_Problem]


def format_markdown(results: Sequence[Result], profile: Profile) -> str:
    """Return the report as Markdown: tables of means over the seeds, with notes.

    Rows are weights, columns protocols and metrics. In profile ``paper`` the paper's rows stand in
    the same table, otherwise in one of their own. The best mean of a column, as printed, is bold;
    where rows differ in their numbers of seeds, only those with the most seeds compete.

    Args:
        results: All runs, at most one per weights, protocol and seed.
        profile: The data that they were measured on.

    Raises:
        ValueError: No results, two for the same run, or an unknown profile.
    """
    texts = []
    for part in _report(results, profile, bold=True):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Table):
            texts.append(markdown_table(part))
        else:
            texts.append("\n".join(f"- {run}: {_code(reason)}" for run, reason in part))
    return "\n\n".join(texts) + "\n"


def format_terminal(results: Sequence[Result], profile: Profile) -> str:
    """Return the same report as aligned text of at most 120 columns, tables cut into blocks.

    Args:
        results: All runs, at most one per weights, protocol and seed.
        profile: The data that they were measured on.

    Raises:
        ValueError: No results, two for the same run, or an unknown profile.
    """
    texts = []
    for part in _report(results, profile, bold=False):
        if isinstance(part, str):
            texts.append(textwrap.fill(part, _TERMINAL_COLUMNS))
        elif isinstance(part, Table):
            texts.append(terminal_table(part, _TERMINAL_COLUMNS))
        else:
            lines = [f"{run}: {reason}" for run, reason in part]
            texts.append("\n".join(textwrap.fill(line, _TERMINAL_COLUMNS) for line in lines))
    return "\n\n".join(texts) + "\n"


def write_csv(results: Sequence[Result], path: str | Path, *, force: bool = False) -> None:
    """Write a line per run and metric; a run that is not done has a line without value.

    Raises:
        FileExistsError: ``path`` is there and ``force`` is not given.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for result in results:
        start = (result.weights, result.protocol, result.seed, result.status)
        end = (result.seconds, result.reason)
        for metric, value in result.metrics.items() or [("", "")]:
            writer.writerow((*start, metric, value, *end))
    _write(text.getvalue(), path, force=force)


def write_json(results: Sequence[Result], path: str | Path, *, force: bool = False) -> None:
    """Write a list of what ``Result.from_dict`` reads.

    Raises:
        FileExistsError: ``path`` is there and ``force`` is not given.
    """
    content = [result.to_dict() for result in results]
    _write(json.dumps(content, indent=2, allow_nan=False) + "\n", path, force=force)


def _write(text: str, path: str | Path, *, force: bool) -> None:
    path = Path(path)
    if path.exists() and not force:
        raise UserFileExistsError(
            f"the output must not exist yet, but {path} does; choose another name or replace it "
            "with force=True."
        )
    # newline="": a line break in a reason is data, and no platform may translate it.
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)


def _report(results: Sequence[Result], profile: Profile, *, bold: bool) -> list[_Part]:
    check_report(results, profile)
    spreads = aggregate(results)
    columns = [
        (protocol, metric) for protocol in order_protocols(results) for metric in METRICS[protocol]
    ]
    measured, rivalry = _measured(results, spreads, columns, bold=bold)
    paper = _paper(columns)
    parts: list[_Part] = [f"Profile {profile}, values in %: {_seeds(spreads)}.{rivalry}"]
    if profile == "coco128":
        parts.append(COCO128_IS_NOISE)
    if profile == "paper":
        about = [_SIDE_BY_SIDE, *notes({protocol for protocol, _ in columns})]
        parts += [_table(columns, measured + paper), " ".join(about)]
    else:
        parts.append(_table(columns, measured))
    problems = _problems(results)
    if problems:
        parts.append(problems)
    differences = against_baseline(results)
    if differences:
        parts += [
            f"Difference to {BASELINE} with the same seed, in percentage points: "
            f"{_seeds(differences)}.",
            _differences(order_weights(results), differences, columns),
        ]
    if profile != "paper":
        parts += [_NOT_COMPARABLE, _table(columns, paper)]
        if any(result.weights == "supervised" for result in results):
            parts.append(_SUPERVISED_HERE)
    return parts


def _table(columns: list[_Column], rows: list[Row]) -> Table:
    return Table([(protocol, _label(protocol, metric)) for protocol, metric in columns], rows)


def _measured(
    results: Sequence[Result],
    spreads: dict[Key, Spread],
    columns: list[_Column],
    *,
    bold: bool,
) -> tuple[list[Row], str]:
    """Return the rows, and the sentence about bold numbers if there are any."""
    names = order_weights(results)
    best = _best(names, spreads, columns) if bold else set()
    statuses: dict[tuple[str, str], set[str]] = {}
    for result in results:
        statuses.setdefault((result.weights, result.protocol), set()).add(result.status)
    rows = []
    for name in names:
        cells = []
        for protocol, metric in columns:
            key = (name, protocol, metric)
            found = statuses.get((name, protocol), set())
            if key in spreads:
                cell = _number(spreads, key, ".1f")
                cells.append(f"**{cell}**" if key in best else cell)
            elif "done" in found:
                cells.append(ABSENT)
            else:
                cells.append(next((s for s in ("failed", "skipped") if s in found), ABSENT))
        rows.append((name, cells))
    if not best:
        return rows, ""
    among = " among the rows with the most seeds" if _show_n(spreads) else ""
    return rows, f" Bold: the best of its column{among}."


def _best(names: list[str], spreads: dict[Key, Spread], columns: list[_Column]) -> set[Key]:
    best: set[Key] = set()
    for column in columns:
        keys = [(name, *column) for name in names if (name, *column) in spreads]
        most = max((spreads[key].n for key in keys), default=0)
        rivals = {key: _rounded(spreads[key].mean) for key in keys if spreads[key].n == most}
        if len(rivals) > 1:
            best |= {key for key, value in rivals.items() if value == max(rivals.values())}
    return best


def _differences(names: list[str], differences: dict[Key, Spread], columns: list[_Column]) -> Table:
    """Return only the rows and columns in which there is a pair of runs."""
    columns = [column for column in columns if any(key[1:] == column for key in differences)]
    rows = [
        (name, [_number(differences, (name, *column), "+.1f") for column in columns])
        for name in names
        if any(key[0] == name for key in differences)
    ]
    return _table(columns, rows)


def _problems(results: Sequence[Result]) -> list[_Problem]:
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for result in results:
        if result.status != "done":
            # A list item is one line, whatever an exception says.
            reason = " ".join(result.reason.split())
            run = (result.status, result.weights, result.protocol, reason)
            seeds.setdefault(run, []).append(result.seed)
    return [
        (
            f"{status}: {weights}, {protocol}, seed{'s' if len(found) > 1 else ''} "
            + ", ".join(map(str, sorted(found))),
            reason,
        )
        for (status, weights, protocol, reason), found in seeds.items()
    ]


def _paper(columns: list[_Column]) -> list[Row]:
    rows = []
    for name, numbers in paper_rows().items():
        values = [numbers.get(protocol, {}).get(metric) for protocol, metric in columns]
        if any(value is not None for value in values):
            rows.append((name, [ABSENT if v is None else f"{v:.1f}" for v in values]))
    return rows


def _seeds(spreads: dict[Key, Spread]) -> str:
    counts = {spread.n for spread in spreads.values()}
    if not counts:
        return "no run is done"
    if counts == {1}:
        return "one seed, so that no deviation is known"
    if len(counts) == 1:
        return f"mean ± sample standard deviation over {counts.pop()} seeds"
    alone = "; one seed has no deviation" if 1 in counts else ""
    return f"mean ± sample standard deviation over n seeds{alone}"


def _show_n(spreads: dict[Key, Spread]) -> bool:
    return len({spread.n for spread in spreads.values()}) > 1


def _number(spreads: dict[Key, Spread], key: Key, form: str) -> str:
    if key not in spreads:
        return ABSENT
    spread = spreads[key]
    text = f"{_rounded(spread.mean):{form}}"
    if spread.std is not None:
        text += f" ± {spread.std:.1f}"
    return f"{text} (n={spread.n})" if _show_n(spreads) else text


def _rounded(value: float) -> float:
    """Round to what is printed; the sum turns -0.0 into 0.0, which has no minus sign."""
    return round(value, 1) + 0.0


def _label(protocol: str, metric: str) -> str:
    if protocol == "detection" and not metric.startswith("mask_"):
        return f"box {metric}"
    return metric.replace("_", " ")


def _code(text: str) -> str:
    """Quote a message, so that its <, * and _ stay what they are."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
