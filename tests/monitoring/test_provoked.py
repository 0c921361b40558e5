"""Troubles provoked in real trainings, and the line that each run says about it."""

import logging

import pytest

from mmssprl.monitoring import TROUBLES, diagnose
from tools.monitoring.cases import HEALTHY, PROVOKED
from tools.monitoring.train import train

CASES = {case.name: case for case in PROVOKED if case.size == "scenes" and case.method == "swav"}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


def test_every_trouble_is_provoked():
    assert {case.label for case in CASES.values()} == TROUBLES.keys()
    assert HEALTHY not in TROUBLES


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
    assert named[0].endswith("; see docs/troubleshooting.md")
    assert diagnose(folder).verdict == label
