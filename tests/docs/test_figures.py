"""Every figure of README and docs next to results follows from a committed CSV file."""

import random
from dataclasses import replace
from statistics import fmean

import pytest
from helpers.docs.derived import gain, read_rows, scores_of
from helpers.docs.figures import RESULTS, blocks
from helpers.docs.given import GIVEN
from helpers.docs.listed import DERIVED
from helpers.package.checkout import ROOT

from mmssprl.experiments.statistics import estimate

WRITTEN_BY_SPHINX = ROOT / "docs/commands.md"
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {WRITTEN_BY_SPHINX})]


def phrases_of(page):
    """Return the listed phrases of a page, with their figures."""
    name = str(page.relative_to(ROOT))
    derived = [text.format(*figures()) for text, figures in DERIVED.get(name, {}).items()]
    return [*GIVEN.get(name, {}), *derived]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_figure_beside_results_follows_from_a_csv_file(page):
    found = blocks(page)
    phrases = phrases_of(page)
    text = "\n".join(block.text for block in found)
    missing = [phrase for phrase in phrases if phrase not in text]
    assert missing == [], "listed in tests/helpers/docs, but not on the page"
    unexplained = []
    for block in found:
        unexplained += block.unexplained(phrases)
    assert unexplained == [], "in no CSV file: correct it, or list it in tests/helpers/docs"


def test_lists_name_pages_that_exist():
    named = {*GIVEN, *DERIVED}
    assert named <= {str(page.relative_to(ROOT)) for page in PAGES}


def with_another_digit(text, span, rng):
    """Return a text with one digit between two places changed."""
    places = [place for place in range(*span) if text[place].isdigit()]
    place = rng.choice(places)
    digits = [digit for digit in "0123456789" if digit != text[place]]
    return text[:place] + rng.choice(digits) + text[place + 1 :]


def test_most_changes_of_a_digit_in_a_sentence_are_noticed():
    rng = random.Random(0)
    noticed = []
    for page in PAGES:
        phrases = phrases_of(page)
        for block in blocks(page):
            if not block.sources or block.text.startswith("|"):
                continue
            own = [phrase for phrase in phrases if phrase in block.text]
            for figure in block.figures():
                text = with_another_digit(block.text, figure.span, rng)
                is_lost = any(phrase not in text for phrase in own)
                noticed.append(is_lost or bool(replace(block, text=text).unexplained(own)))
    assert len(noticed) > 300
    assert fmean(noticed) > 0.85  # 0.90 over five seeds


def test_differences_of_distillation_are_those_of_its_results():
    lines = read_rows(RESULTS / "distillation/differences.csv")
    assert len(lines) >= 26
    for line in lines:
        samples = []
        for row in (line["row"], line["reference"]):
            folder, _, method = row.rpartition("/")
            wanted = {"split": "test", "row": row}
            if folder:
                wanted = {"budget": "time", "method": method}
            path = RESULTS / (folder or "distillation") / "results.csv"
            samples.append(scores_of(path, line["score"], **wanted))
        difference, half_width = gain(*samples)
        assert float(line["difference"]) == pytest.approx(difference)
        assert float(line["half_width"]) == pytest.approx(half_width)
        assert [int(line["num_seeds"]), int(line["num_reference_seeds"])] == [*map(len, samples)]


METHODS = {
    "SwAV with six small views": "swav-small",
    "SS-PRL, six small views, sampled patches": "ssprl-small-sampled",
    "SS-PRL, released form": "ssprl-released",
    "SwAV without small views": "swav",
    "SS-PRL, paper's form": "ssprl",
    "BYOL": "byol",
    "DenseCL": "densecl",
    "MoCo v2": "mocov2",
    "supervised training on the 62 words": "supervised",
}


def test_the_table_of_methods_shows_the_results():
    lines = (ROOT / "docs/compare.md").read_text().splitlines()
    first = next(num for num, line in enumerate(lines) if line.startswith("| method | seeds |"))
    for line, (title, method) in zip(lines[first + 2 :], METHODS.items(), strict=False):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[0].partition(" (`")[0] == title
        scores = [
            scores_of(RESULTS / "photos/results.csv", method=method, budget=budget)
            for budget in ("epochs", "time")
        ]
        assert cells[1:4] == [str(len(scores[0])), *(estimate(own).text() for own in scores)]
        if cells[4]:
            own = scores_of(RESULTS / "photos_gpu/results.csv", method=method, budget="time")
            assert cells[4] == f"{estimate(own).text()} ({len(own)})"
    assert not lines[first + 2 + len(METHODS)]
