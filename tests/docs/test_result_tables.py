import csv
import io
import re
from collections import defaultdict

import pytest
from helpers.package.checkout import ROOT

from mmssprl.experiments.compare.report import comparison_rows
from mmssprl.experiments.report import csv_text
from mmssprl.experiments.statistics import compare_all
from mmssprl.pretraining.methods import BY_KEY


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
