import logging
import re
from pathlib import Path

import pytest

from mmssprl.monitoring import TROUBLES, diagnose
from tools.dev.monitoring.runs import HEALTHY, PROVOKED, train

PAGE = Path(__file__).parents[2] / "docs/results/provoked/README.md"
CASES = {case.name: case for case in PROVOKED if case.size == "scenes" and case.method == "swav"}


def without_numbers(text):
    """A line of which other machines may give other numbers: the shares of time, at least."""
    return re.sub(r"\d[\d.]*%?( epochs?)?", "N", text)


def lines_of_the_page():
    return re.findall(r"\| `` (.*?) `` +\|$", PAGE.read_text(), re.MULTILINE)


def test_every_trouble_is_provoked_and_the_page_has_a_whole_line_of_every_case():
    # That of a probe is provoked in tests/features/test_start_scores.py.
    assert {case.label for case in CASES.values()} == TROUBLES.keys() - {"worse_than_start"}
    assert HEALTHY not in TROUBLES
    ends = [
        f": {TROUBLES[case.label].name}; {TROUBLES[case.label].cure}; see docs/troubleshooting.md"
        for case in CASES.values()
    ]
    assert len(lines_of_the_page()) == len(ends)
    for line, end in zip(lines_of_the_page(), ends, strict=True):
        assert line.endswith(end)
        assert len(line) > len(end)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_provoked_trouble_is_named_once_and_diagnosed(name, out, tmp_path):
    train(out, tmp_path, only=name)
    label = CASES[name].label
    folder = out / "runs" / name
    (log,) = folder.glob("*/*.log")
    warning = logging.getLevelName(logging.WARNING)
    said = [line for line in log.read_text().splitlines() if warning in line]
    named = [line for line in said if f": {TROUBLES[label].name}; {TROUBLES[label].cure}" in line]
    assert len(named) == 1
    line = without_numbers(named[0].split(f" {warning} - ")[1])
    assert line in map(without_numbers, lines_of_the_page())
    assert diagnose(folder).verdict == label
