"""README and pages show what the comparisons have measured."""

import csv
import io
import re
from pathlib import Path

import pytest

from mmssprl.experiments.statistics import holm, welch
from mmssprl.pretraining.methods import METHODS
from tools.dev import comparisons

ROOT = Path(__file__).parents[2]


def rows_of(text):
    """Return the cells of each row of a Markdown table, by the first cell."""
    lines = [re.split(r"\s*\|\s*", line.strip("|\n ")) for line in text.splitlines()]
    return {first: cells for first, *cells in lines if cells and not first.startswith("--")}


def test_the_readme_shows_what_was_measured():
    readme = (ROOT / "README.md").read_text()
    [shown] = re.findall(r"\(docs/results/photos/README\.md\)[^|]*\n\n(\|.*?\|)\n\n", readme, re.S)
    written = (ROOT / "docs" / "results" / "photos" / "table.md").read_text()
    _, epochs, time, *_ = map(rows_of, re.split("^## .*", written, flags=re.M))
    heads, *lines = rows_of(shown).items()
    assert heads[1] == ["epochs", "mAP %, equal epochs", "epochs", "mAP %, equal time"]
    assert len(lines) == 4
    for title, cells in lines:
        assert cells == [table[title][i] for table in (epochs, time) for i in (0, 6)]


def test_the_page_of_single_changes_shows_what_was_measured():
    results = ROOT / "docs" / "results"
    scores = {images: comparisons.read_scores(results / images) for images in ("photos", "scenes")}
    page = (results / "small_views_and_sampling.md").read_text()
    keys = {method.title: method.key for method in METHODS}
    lines = re.findall(
        r"\| (photos|scenes) +" + r"\| (.*?) +" * 2 + r"\| +(.*?) " * 3 + r"\|", page
    )
    shown = [cell for line in lines for cell in line[4:]]
    found = [
        welch(*(scores[images][budget][keys[title]] for title in (method, other)))
        for images, method, other, *_ in lines
        for budget in ("epochs", "time")
    ]
    assert [int(line[3]) for line in lines] == [difference.n for difference, _ in found[::2]]
    adjusted = holm([p for _, p in found])
    assert len(shown) == 20
    for cell, (difference, _), p in zip(shown, found, adjusted, strict=True):
        words = difference.text("+.1f")
        assert cell == (f"**{words}**" if p < 0.05 else words)


def test_the_page_of_single_choices_shows_what_was_measured():
    folder = ROOT / "docs" / "results" / "choices"
    scores = [
        comparisons.read_scores(folder / images)["time"] for images in ("gpu", "photos", "scenes")
    ]
    lines = re.findall(
        r"^\| `([a-z0-9.-]+)` +\|.*?" + r"\| +([-+].*?|) " * 3 + r"\|$",
        (folder / "README.md").read_text(),
        re.M,
    )
    assert {key for key, *_ in lines} >= {path.stem for path in folder.glob("*.py")}
    for key, *cells in lines:
        for cell, found in zip(cells, scores, strict=True):
            expected = ""
            if key in found:
                difference, _ = welch(found[key], found["ssprl-small-sampled"])
                expected = difference.text("+.1f")
            assert cell == expected


FOLDERS = sorted(path.parent for path in (ROOT / "docs/results").rglob("comparisons.csv"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_committed_comparisons_are_what_the_statistics_give_of_the_results(folder):
    assert len(FOLDERS) >= 7
    for path in folder.glob("comparisons*.csv"):
        reference = comparisons.read(path)[0]["reference"]
        own = list(csv.DictReader(io.StringIO(comparisons.comparisons(folder, reference))))
        for line, expected in zip(comparisons.read(path), own, strict=True):
            for name, cell in expected.items():
                is_number = name in ("difference", "low", "high", "p", "p_holm") and cell
                assert (
                    (float(line[name]) == pytest.approx(float(cell)))
                    if is_number
                    else (line[name] == cell)
                )
    assert (folder / "table.md").read_text() == comparisons.table(folder)
