import json
from collections import Counter
from pathlib import Path

import pytest

from mmssprl.engine.troubles import AT_CHANCE, LEAST_STEPS, TROUBLES, diagnose, find_troubles

LOGS_FILE = Path(__file__).with_name("logs.json")
"""Made by tools/dev/monitoring of version 0.2-wide."""
LOGS = {log["name"]: log for log in json.loads(LOGS_FILE.read_text())}

SHORT_EPOCHS_FILE = Path(__file__).with_name("short_epochs.json")
"""A run of configs/ssprl/ssprl_resnet18_scenes.py on 256 scenes of 96 px, in batches of 16 for 16
epochs, with lr 5e-4 and a line every 4 steps."""


def records_in(log):
    rows = zip(*log["scalars"].values(), strict=True)
    lines = (zip(log["scalars"], row, strict=True) for row in rows)
    return [{key: value for key, value in line if value is not None} for line in lines]


def records_of(name):
    return records_in(LOGS[name])


def test_there_are_healthy_logs_and_some_of_every_trouble():
    assert len(LOGS) >= 20
    assert Counter(log["label"] for log in LOGS.values()).keys() == {*("healthy", *TROUBLES)} - {
        "worse_than_start"
    }  # needs a probe
    assert LOGS_FILE.stat().st_size < 200_000


def assert_healthy_all_the_way(records):
    assert diagnose("log", records).verdict == "healthy"
    assert not [n for n in range(1, len(records)) if find_troubles(records[:n])]


@pytest.mark.parametrize("name", LOGS)
def test_the_verdict_on_a_recorded_run(name):
    records, label = records_of(name), LOGS[name]["label"]
    found = diagnose("log", records)
    assert found.verdict == label
    assert found.lines[1].startswith("healthy: " if label == "healthy" else "trouble: ")
    if label == "healthy":
        assert_healthy_all_the_way(records)


def test_there_is_no_false_alarm_in_a_healthy_run_of_short_epochs():
    """One term is above chance for four epochs of 16 steps, but falls all the time."""
    (log,) = json.loads(SHORT_EPOCHS_FILE.read_text())
    records = records_in(log)
    assert max(r["step"] for r in records if r["relative_cross_s1"] >= AT_CHANCE) > LEAST_STEPS
    assert_healthy_all_the_way(records)


def a_run(label):
    return next(name for name, log in LOGS.items() if log["label"] == label)


@pytest.mark.parametrize("label", ["healthy", "at_chance"])
def test_too_short_to_tell(label):
    assert diagnose("log", records_of(a_run(label))[:2]).verdict == "too_short"
    records = records_of(a_run(label))
    short = [record for record in records if record["step"] < LEAST_STEPS]
    assert short[-1]["epochs_done"] > 3
    assert diagnose("log", short).verdict == "too_short"
