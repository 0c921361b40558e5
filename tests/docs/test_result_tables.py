"""README and pages show what the comparisons have measured."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from tiny_compare import rows

from mmssprl.compare.methods import METHODS
from mmssprl.compare.statistics import holm, paired

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
    heads, *lines = rows_of(shown).items()
    assert heads[1] == ["epochs", "mAP %, equal epochs", "epochs", "mAP %, equal time"]
    assert len(lines) > 5
    for title, cells in lines:
        assert cells == [table[title][i] for table in (epochs, time) for i in (0, 6)]


def test_the_page_of_single_changes_shows_what_was_measured():
    results = ROOT / "docs" / "results"
    scores = defaultdict(dict)
    for images in ("photos", "scenes"):
        for run in rows(results / images / "results.csv"):
            key = images, run["budget"], run["method"]
            scores[key][int(run["seed"])] = 100 * float(run["mAP"])
    page = (results / "small_views_and_sampling.md").read_text()
    keys = {method.title: method.key for method in METHODS}
    lines = re.findall(
        r"\| (photos|scenes) +" + r"\| (.*?) +" * 2 + r"\| +(.*?) " * 3 + r"\|", page
    )
    shown = [cell for line in lines for cell in line[4:]]
    found = [
        paired(scores[images, budget, keys[method]], scores[images, budget, keys[other]])
        for images, method, other, *_ in lines
        for budget in ("epochs", "time")
    ]
    assert [int(line[3]) for line in lines] == [
        comparison.difference.n for comparison in found[::2]
    ]
    adjusted = holm([comparison.p for comparison in found])
    assert len(shown) == 20
    for cell, comparison, p in zip(shown, found, adjusted, strict=True):
        words = _words(comparison)
        assert cell == (f"**{words}**" if p < 0.05 else words)


def test_the_page_of_single_choices_shows_what_was_measured():
    folder = ROOT / "docs" / "results" / "choices"
    scores = [defaultdict(dict) for _ in range(3)]
    for found, images in zip(scores, ("gpu", "photos", "scenes"), strict=True):
        for run in rows(folder / images / "results.csv"):
            found[run["method"]][int(run["seed"])] = 100 * float(run["mAP"])
    lines = re.findall(
        r"^\| `([a-z0-9.-]+)` +\|.*?" + r"\| +([-+].*?|) " * 3 + r"\|$",
        (folder / "README.md").read_text(),
        re.M,
    )
    assert {key for key, *_ in lines} >= {path.stem for path in folder.glob("*.py")}
    for key, *cells in lines:
        for cell, found in zip(cells, scores, strict=True):
            assert cell == _words(paired(found[key], found["ssprl-small-sampled"]))


def _words(comparison):
    if comparison is None:
        return ""
    mean, half_width = comparison.difference.mean, comparison.difference.half_width
    return f"{mean:+.1f}" + (f" ± {half_width:.1f}" if half_width is not None else "")
