"""Files of an experiment: the text of its tables, and CSV files with a line per run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..console.tables import csv_table
from ..system.outputs import write_whole

CsvRow = Mapping[str, object]
"""A line of a CSV file, by the names of its columns."""


def write_tables(folder: Path, files: Mapping[str, str | Sequence[CsvRow]]) -> list[str]:
    """Write texts and the rows of CSV files, and return their names."""
    for name, content in files.items():
        write_whole(folder / name, content if isinstance(content, str) else csv_text(content))
    return [*files]


def csv_text(rows: Sequence[CsvRow]) -> str:
    """Return rows as the text of a CSV file."""
    return csv_table([*rows[0]], [[*row.values()] for row in rows]) if rows else ""
