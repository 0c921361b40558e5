import csv
import io
import re
from collections import defaultdict

import pytest
from helpers.package.checkout import ROOT

from mmssprl.experiments.compare.report import comparison_rows
from mmssprl.experiments.report import csv_text
from mmssprl.experiments.statistics import compare_all, holm, welch
from mmssprl.pretraining.methods import BY_KEY, METHODS


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def read_scores(folder):
    """Return the mAP in percent of every seed, by budget and method, from results.csv."""
    scores = defaultdict(dict)
    for run in read(folder / "results.csv"):
        scores[run["budget"]].setdefault(run["method"], []).append(100 * float(run["mAP"]))
    return dict(scores)


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
    scores = {images: read_scores(results / images) for images in ("photos", "scenes")}
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
    scores = [read_scores(folder / images)["time"] for images in ("gpu", "photos", "scenes")]
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
    scores = read_scores(folder)
    table = (folder / "table.md").read_text()
    for path in folder.glob("comparisons*.csv"):
        reference = read(path)[0]["reference"]
        found = {}
        for budget, own in scores.items():
            competing = [key for key in own if key not in BY_KEY or BY_KEY[key].competes]
            found[budget] = compare_all(own, reference, competing) if reference in own else {}
        if path.name == "comparisons.csv":
            shown = [one.difference.text("+.1f") for own in found.values() for one in own.values()]
            assert all(f"| {text} |" in re.sub(" +", " ", table) for text in shown)
        own = list(csv.DictReader(io.StringIO(csv_text(comparison_rows(found, scores, reference)))))
        for line, expected in zip(read(path), own, strict=True):
            for name, cell in expected.items():
                if name in ("difference", "low", "high", "p", "p_holm") and cell:
                    assert float(line[name]) == pytest.approx(float(cell))
                else:
                    assert line[name] == cell
