"""Tables as Markdown, which is aligned and so also reads well in a terminal, and as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence

from .wording import on_one_line, wrapped


def markdown_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 1
) -> str:
    """Return an aligned Markdown table, without a newline at the end.

    ``num_left`` columns of text begin at the left; those of numbers follow and end at the right. A
    ``|`` in a cell is escaped, and what ``on_one_line`` escapes.
    """
    lines = [[on_one_line(cell).replace("|", r"\|") for cell in row] for row in (heads, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    is_text = [index < num_left for index in range(len(widths))]
    ends = ["-" if text else ":" for text in is_text]
    rule = [end.rjust(width, "-") for end, width in zip(ends, widths, strict=True)]
    table = []
    for line in (lines[0], rule, *lines[1:]):
        cells = [
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(line, widths, is_text, strict=True)
        ]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def csv_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a head line and a line per row as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((heads, *rows))
    return text.getvalue()


_CHOICE_WIDTH = 60
"""A longer choice does not widen its column."""


def reasons_table(rows: Mapping[str, tuple[str, str]]) -> str:
    """Return rows of a name, a choice and the reason for it, which is wrapped in its column."""
    width = min(_CHOICE_WIDTH, max(len(choice) for choice, _ in rows.values()))
    lines = []
    for name, (choice, reason) in rows.items():
        text = f"  {name:<11}{choice:<{width}}  {reason}"
        indent = 15 + width if len(choice) <= width else 13
        lines.append(wrapped(text, indent, break_words=True))
    return "\n".join(lines)
