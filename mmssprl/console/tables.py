"""Tables as Markdown, which is aligned and so also reads well in a terminal, and as CSV."""

import csv
import io
import re
from collections.abc import Mapping, Sequence

from .arguments import is_number
from .wording import on_one_line, wrapped


def markdown_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 1
) -> str:
    """Return an aligned Markdown table.

    Args:
        heads: One name per column.
        rows: As many cells each; a ``|`` in a cell is escaped, and what ``on_one_line`` escapes.
        num_left: Number of columns of text, which begin at the left; those of numbers follow and
            end at the right.

    Returns:
        Lines without a newline at the end.
    """
    lines = [[on_one_line(cell).replace("|", r"\|") for cell in row] for row in (heads, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    is_left = [index < num_left for index in range(len(widths))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(cells, widths, is_left, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * width if left else "-" * (width - 1) + ":"
        for width, left in zip(widths, is_left, strict=True)
    ]
    return "\n".join([line(lines[0]), line(rule), *map(line, lines[1:])])


def csv_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a head line and a line per row as CSV, each cell as ``csv_cell`` has it."""
    return "".join(csv_line([csv_cell(cell) for cell in row]) for row in (heads, *rows))


def csv_line(cells: Sequence[object]) -> str:
    """Return a line of CSV, with cells as they are."""
    text = io.StringIO()
    # A cell is quoted if it has a character of what ends the line.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


_FORMULA = re.compile(r"'*[=+\-@\t\r].", re.DOTALL)
"""How a cell begins that a spreadsheet would run, or that has been kept from it."""


def csv_cell(value: object) -> object:
    """Return a cell that no spreadsheet runs: a ``'`` goes before text that begins like a formula.

    Numbers stay, also as text, and a lone "-". A cell that begins with any number of ``'`` and then
    one of = + - @, tab and carriage return was the text behind the first ``'``.
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or is_number(value):
        return value
    return f"'{value}"


_CHOICE_WIDTH = 60
"""A longer choice does not widen its column."""


def reasons_table(rows: Mapping[str, tuple[str, str]]) -> str:
    """Return rows of a name, a choice and the reason for it, which is wrapped in its column."""
    choices = [len(choice) for choice, _ in rows.values()]
    width = max((length for length in choices if length <= _CHOICE_WIDTH), default=0)
    lines = []
    for name, (choice, reason) in rows.items():
        head = f"  {name:<11}"
        indent = len(head) + (width + 2 if len(choice) <= width else 0)
        lines.append(wrapped(f"{head}{choice:<{width}}  {reason}", indent))
    return "\n".join(lines)


def aligned_pairs(pairs: Mapping[str, str]) -> str:
    """Return a line per pair: names padded to one width, then the values."""
    width = max(map(len, pairs))
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs.items())
