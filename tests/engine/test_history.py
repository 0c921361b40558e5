import json

import pytest
from helpers.engine.logs import write_log

from mmssprl.engine.history import read_scalars, read_validations


def training_line(step, loss=1.0):
    return {"lr": 0.1, "loss": loss, "step": step}


def losses(run):
    return [(line["step"], line["loss"]) for line in read_scalars(run)]


def test_a_resumed_run_replaces_all_steps_from_its_first_on(tmp_path):
    write_log(tmp_path, [training_line(step) for step in range(1, 9)])
    resumed = [training_line(step, loss=0.5) for step in (3, 4)]
    write_log(tmp_path, resumed, "20260103_000000")
    assert losses(tmp_path) == [(1, 1), (2, 1), (3, 0.5), (4, 0.5)]


def test_a_run_that_was_resumed_in_another_time_zone_has_its_order(tmp_path):
    write_log(tmp_path, [training_line(step) for step in (1, 2)], "20260102_090000")
    write_log(tmp_path, [training_line(3)], "20260102_000500")
    starts = [{"log": "20260102_090000"}, {"log": "20260102_000500"}]
    (tmp_path / "run.json").write_text(json.dumps({"config": {}, "starts": starts}))
    assert losses(tmp_path) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([{"log": "20260102_000000"}], [(2, 1)]),
        # The record of the first start is lost, or of 0.2 and names no log.
        ([{"log": "20260102_000000", "resumed_from": "epoch_1.pth"}], [(1, 9), (2, 1)]),
        ([{"log": None}, {"log": "20260102_000000"}], [(1, 9), (2, 1)]),
    ],
    ids=["overwritten", "no-first", "no-log"],
)
def test_logs_of_a_run_that_was_overwritten_are_left_out(tmp_path, starts, expected):
    write_log(tmp_path, [training_line(step, loss=9) for step in (1, 2, 3)], "20260109_000000")
    write_log(tmp_path, [training_line(2)], "20260102_000000")
    (tmp_path / "run.json").write_text(json.dumps({"config": {}, "starts": starts}))
    assert losses(tmp_path) == expected


def test_lines_of_validations_are_left_out(tmp_path):
    validation = {"acc": 1.0, "step": 0}
    write_log(tmp_path, [training_line(1), validation])
    write_log(tmp_path, [validation], "20260102_000000")  # stopped before its first line
    assert losses(tmp_path) == [(1, 1)]


def test_a_line_that_is_still_being_written_is_left_out(tmp_path):
    path = write_log(tmp_path, [training_line(1)])
    with path.open("a") as file:
        file.write('{"lr": 0.1, "lo')
    assert losses(tmp_path) == [(1, 1)]


def test_the_later_log_of_a_validation_wins(tmp_path):
    write_log(tmp_path, [training_line(1), {"acc": 0.9, "step": 1}, {"acc": 0.7, "step": 2}])
    write_log(tmp_path, [{"acc": 0.6, "step": 2}], "20260102_000000")
    assert read_validations(tmp_path, "acc") == {1: 0.9, 2: 0.6}
