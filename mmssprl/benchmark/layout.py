"""A table of text as Markdown, and as aligned columns for a terminal."""

import textwrap
from dataclasses import dataclass
from itertools import groupby

ABSENT = "–"
"""A cell without a number."""

Row = tuple[str, list[str]]
"""Name and one cell per column."""

_CORNER = "weights"
_NAME_COLUMNS = 36
_GAP = "  "


@dataclass(frozen=True)
class Table:
    """Rows under heads of two parts, such as ``("detection", "box AP50")``."""

    heads: list[tuple[str, str]]
    rows: list[Row]


def markdown_table(table: Table) -> str:
    """Return one Markdown table; names at the left, numbers at the right."""
    lines = [
        [_CORNER, *(" ".join(head) for head in table.heads)],
        ["---", *("---:" for _ in table.heads)],
        *([name.replace("|", r"\|"), *cells] for name, cells in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def terminal_table(table: Table, num_columns: int) -> str:
    """Return aligned text, in as many blocks as it takes; long names go over several lines.

    A row without any number in a block is left out there.

    Args:
        table: Whose widest group of columns fits beside the names.
        num_columns: Width of the text in characters.
    """
    names = [textwrap.wrap(name, _NAME_COLUMNS) for name, _ in table.rows]
    name_width = max(len(line) for lines in [[_CORNER], *names] for line in lines)
    widths = [
        max(map(len, (*head, *(cells[index] for _, cells in table.rows))))
        for index, head in enumerate(table.heads)
    ]
    blocks = []
    for block in _blocks(table.heads, widths, num_columns - name_width):
        lines = [
            (_CORNER, [table.heads[index][0] for index in block]),
            ("", [table.heads[index][1] for index in block]),
            ("-" * name_width, ["-" * widths[index] for index in block]),
        ]
        num_head_lines = len(lines)
        for (first, *more), (_, row) in zip(names, table.rows, strict=True):
            cells = [row[index] for index in block]
            if any(cell != ABSENT for cell in cells):
                lines += [(first, cells), *((rest, [""] * len(block)) for rest in more)]
        if len(lines) > num_head_lines:
            blocks.append("\n".join(_line(*line, name_width, block, widths) for line in lines))
    return "\n\n".join(blocks)


def _line(name: str, cells: list[str], name_width: int, block: list[int], widths: list[int]) -> str:
    padded = [cell.rjust(widths[index]) for index, cell in zip(block, cells, strict=True)]
    return _GAP.join([name.ljust(name_width), *padded]).rstrip()


def _blocks(heads: list[tuple[str, str]], widths: list[int], room: int) -> list[list[int]]:
    """Pack columns from left to right; those of a protocol's boxes or masks stay together."""
    blocks: list[list[int]] = [[]]
    groups = groupby(range(len(heads)), lambda index: (heads[index][0], heads[index][1].split()[0]))
    for _, group in groups:
        together = list(group)
        taken = sum(len(_GAP) + widths[index] for index in blocks[-1] + together)
        if blocks[-1] and taken > room:
            blocks.append([])
        blocks[-1] += together
    return blocks
