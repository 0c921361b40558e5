"""Files of an experiment: the text of its tables, a CSV line per run, and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..console.tables import csv_table
from ..system.outputs import write_figure, write_whole
from .figure import Panel, draw_panels

CsvRow = Mapping[str, object]
"""A line of a CSV file, by the names of its columns."""


def write_report(
    folder: Path,
    files: Mapping[str, str | Sequence[CsvRow]],
    picture: str,
    panels: Sequence[Panel],
    *,
    title: str,
    rows: Sequence[str] = (),
    highlighted: str = "",
) -> list[str]:
    """Write tables and picture, and return the names of the files.

    ``files`` are texts or the rows of CSV files. The picture shows those of ``rows`` that have
    dots, in this order; it is left out while there is nothing to draw.
    """
    for name, content in files.items():
        write_whole(folder / name, content if isinstance(content, str) else csv_text(content))
    drawn = {row for panel in panels for row in panel.dots}
    if not drawn:
        return [*files]
    figure = draw_panels(panels, [r for r in rows if r in drawn], title, highlighted=highlighted)
    write_figure(folder / picture, figure)
    return [*files, picture]


def csv_text(rows: Sequence[CsvRow]) -> str:
    """Return rows as the text of a CSV file."""
    return csv_table([*rows[0]], [[*row.values()] for row in rows]) if rows else ""
