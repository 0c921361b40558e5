"""Tables as aligned Markdown, which is also readable in a terminal, and as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence

from .wording import on_one_line, wrapped


def markdown_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 1
) -> str:
    """Return an aligned Markdown table without a final newline.

    The first ``num_left`` columns are left-aligned, the others right-aligned. Cells are escaped.
    """
    head, *body = (_escaped(row) for row in (heads, *rows))
    widths = [max(3, *map(len, column)) for column in zip(head, *body, strict=True)]
    ends = ["-" if i < num_left else ":" for i in range(len(widths))]
    rule = [end.rjust(width, "-") for end, width in zip(ends, widths, strict=True)]
    return "\n".join(_aligned(cells, widths, num_left) for cells in (head, rule, *body))


def _escaped(row: Sequence[str]) -> list[str]:
    return [on_one_line(cell).replace("|", r"\|") for cell in row]


def _aligned(cells: Sequence[str], widths: Sequence[int], num_left: int) -> str:
    left = map(str.ljust, cells[:num_left], widths)
    right = map(str.rjust, cells[num_left:], widths[num_left:])
    return f"| {' | '.join([*left, *right])} |"


def csv_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((heads, *rows))
    return text.getvalue()


_CHOICE_WIDTH = 60
"""Largest width of the column; longer choices exceed it, but paths lose their middle."""
_FOLDER_WIDTH = 18
"""Characters that are kept of the beginning of such a path."""


def reasons_table(rows: Mapping[str, tuple[str, str]]) -> str:
    """Return rows of name, choice and reason; the reason is wrapped in its column."""
    shown = {name: (_short_path(choice), reason) for name, (choice, reason) in rows.items()}
    width = min(_CHOICE_WIDTH, max(len(choice) for choice, _ in shown.values()))
    lines = []
    for name, (choice, reason) in shown.items():
        text = f"  {name:<11}{choice:<{width}}  {reason}"
        indent = 15 + width if len(choice) <= width else 13
        lines.append(wrapped(text, indent, break_words=True))
    return "\n".join(lines)


def _short_path(choice: str) -> str:
    """Shorten the middle of a path, but nothing that sets a value."""
    if len(choice) <= _CHOICE_WIDTH or "/" not in choice or "=" in choice:
        return choice
    end = _CHOICE_WIDTH - _FOLDER_WIDTH - len("...")
    return f"{choice[:_FOLDER_WIDTH]}...{choice[-end:]}"
