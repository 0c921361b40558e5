"""A table of the benchmark as Markdown, cut into blocks of columns where it is too wide."""

from collections.abc import Callable
from itertools import groupby

from ...console.tables import markdown_table

Column = tuple[str, str]
"""Protocol and metric."""

Table = tuple[list[Column], list[list[str]]]
"""Columns; and rows, a name and then a cell for each column."""

ABSENT = "–"
"""A cell without a number."""

_KINDS: tuple[Callable[[Column], object], ...] = (
    lambda column: column[0].partition("-")[0],  # linear, semisup, detection, segmentation
    lambda column: column[1].startswith("mask_"),  # boxes, masks
    lambda column: column,
)
"""What stays together as far as it fits, the largest first."""


def format_table(table: Table, width: int) -> list[str]:
    """Return blocks of columns, as many in each as fit, without rows that have no number there.

    Args:
        table: At least one column.
        width: Characters of a line; one column alone may be wider.
    """
    columns, rows = table

    def draw(places: list[int]) -> str:
        cells = [[row[0], *(row[1 + place] for place in places)] for row in rows]
        kept = [row for row in cells if any(cell != ABSENT for cell in row[1:])]
        return markdown_table(["weights", *(_head(*columns[place]) for place in places)], kept)

    def fits(places: list[int]) -> bool:
        return len(draw(places).partition("\n")[0]) <= width

    def split(places: list[int], kind: Callable[[Column], object]) -> list[list[int]]:
        groups = groupby(places, lambda place: kind(columns[place]))
        return [places] if fits(places) else [list(group) for _, group in groups]

    pieces = [list(range(len(columns)))]
    for kind in _KINDS:
        pieces = [part for piece in pieces for part in split(piece, kind)]
    blocks: list[list[int]] = []
    for piece in pieces:
        if blocks and fits(blocks[-1] + piece):
            blocks[-1] += piece
        else:
            blocks.append(piece)
    return [draw(block) for block in blocks]


def _head(protocol: str, metric: str) -> str:
    if protocol != "detection":
        return f"{protocol} {metric}"
    # Six long names would be most of the table, and no other protocol has boxes or masks.
    part, _, name = metric.rpartition("_")
    return f"{part or 'box'} {name}"
