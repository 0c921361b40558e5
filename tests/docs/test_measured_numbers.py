import csv
import io
import re
import runpy
from collections import Counter, defaultdict
from itertools import chain

import pytest
from helpers.package.checkout import ROOT

from mmssprl.experiments.compare.report import comparison_rows
from mmssprl.experiments.report import csv_text
from mmssprl.experiments.statistics import compare_all
from mmssprl.pretraining.choose import choose_recipe
from mmssprl.pretraining.methods import BY_KEY
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pyramid import ViewLayout


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_readme_answers_what_to_do_by_the_committed_runs():
    folder = ROOT / "docs/results/distillation"
    made = runpy.run_path(str(folder / "what_to_do.py"))["table"]()
    assert (folder / "what_to_do.md").read_text() == made
    assert made in (ROOT / "README.md").read_text()


FOLDERS = sorted(path.parent for path in (ROOT / "docs/results").rglob("comparisons.csv"))


def looked_at(page):
    """Return the differences that a page shows, by the images that they are of."""
    found = Counter()
    for path in page.parent.rglob("comparisons.csv"):
        if "held_out" not in str(path):
            is_own = "--data" in (path.parent / "table.md").read_text()
            found["test" if is_own else "scenes"] += len(read(path))
    for path in page.parent.rglob("differences.csv"):
        found.update(row["images"] for row in read(path))
    return found


def test_every_page_says_how_often_its_test_images_have_been_looked_at():
    pages = sorted((ROOT / "docs/results").glob("*/README.md"))
    assert len(pages) >= 8
    totals = Counter()
    for page in pages:
        own = looked_at(page)
        totals += own
        text = " ".join(page.read_text().split())
        assert "looked at before" in text, page
        [said] = re.findall(r"shows? (\d+ \[differences\].*?)[.:] ", text) if own else [""]
        counts = [int(num) for num in re.findall(r"(\d+) (?:\[differences\]\S+ )?of", said)]
        assert counts == [own[name] for name in ("test", "scenes", "voc128") if own[name]], page

    table = (ROOT / "docs/results.md").read_text()
    found = re.findall(r"^\| (?:499|600|100) .* (\d+) \|$", table, re.M)
    assert [*map(int, found)] == [totals[name] for name in ("test", "scenes", "voc128")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_committed_comparisons_are_what_the_statistics_give_of_the_results(folder):
    assert len(FOLDERS) >= 7
    scores = defaultdict(dict)  # the mAP in percent of every seed, by budget and method
    for run in read(folder / "results.csv"):
        scores[run["budget"]].setdefault(run["method"], []).append(100 * float(run["mAP"]))
    table = (folder / "table.md").read_text()
    for path in folder.glob("comparisons*.csv"):
        reference = read(path)[0]["reference"]
        found = {}
        for budget, own in scores.items():
            competing = [key for key in own if key not in BY_KEY or BY_KEY[key].competes]
            found[budget] = compare_all(own, reference, competing) if reference in own else {}
        if path.name == "comparisons.csv":
            for one in chain.from_iterable(own.values() for own in found.values()):
                assert f"| {one.difference.text('+.1f')} |" in re.sub(" +", " ", table)
        own = list(csv.DictReader(io.StringIO(csv_text(comparison_rows(found, scores, reference)))))
        for line, expected in zip(read(path), own, strict=True):
            for name, cell in expected.items():
                if name in ("difference", "low", "high", "p", "p_holm") and cell:
                    assert float(line[name]) == pytest.approx(float(cell))
                else:
                    assert line[name] == cell


@pytest.mark.parametrize("num_images", [5_000, 100_000])
def test_the_hours_of_the_default_follow_from_the_measured_rate(num_images):
    page = (ROOT / "docs/hardware.md").read_text()
    measured = (ROOT / "tools/dev/speed/results/gpu.md").read_text()
    [rate] = re.findall(r"^\| images  .* (\d+) images/s", measured, re.M)
    [crops] = re.findall(r"^- G1: B = 64. ([\d.]+) crops an image", measured, re.M)
    recipe = choose_recipe(PretrainOptions(), num_images, 480, on_gpu=True)
    groups = ViewLayout.build(recipe.cfg.layout).groups
    own = sum(group.num_crops * group.px**2 for group in groups) / 224**2
    hours = recipe.epochs * num_images * own / (float(rate) * float(crops)) / 3600
    views = recipe.rows["views"].choice
    assert f"| {num_images:,} | {recipe.epochs} | {views} | {own:.2f} | {hours:.1f} |" in page
    assert f"{hours:.1f}" in (ROOT / "README.md").read_text()
    assert f"{float(rate) * float(crops):,.0f} such crops/s" in page
