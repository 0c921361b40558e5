"""The README's tables of the comparison are those that the command has written."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows_of(text):
    """Return the cells of each row of a Markdown table, by the first cell."""
    lines = [re.split(r"\s*\|\s*", line.strip("|\n ")) for line in text.splitlines()]
    return {first: cells for first, *cells in lines if cells and not first.startswith("--")}


@pytest.mark.parametrize("name", ["photos", "scenes"])
def test_the_readme_shows_what_was_measured(name):
    readme = (ROOT / "README.md").read_text()
    [shown] = re.findall(rf"\(docs/results/{name}/README\.md\)[^|]*\n\n(\|.*?\|)\n\n", readme, re.S)
    written = (ROOT / "docs" / "results" / name / "table.md").read_text()
    _, epochs, time, *_ = map(rows_of, re.split("^## .*", written, flags=re.M))
    heads, *rows = rows_of(shown).items()
    assert heads[1] == ["epochs", "mAP %, equal epochs", "epochs", "mAP %, equal time"]
    assert len(rows) > 5
    for title, cells in rows:
        assert cells == [table[title][i] for table in (epochs, time) for i in (0, 6)]
