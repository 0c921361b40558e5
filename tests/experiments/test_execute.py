"""Runs that need others, what is kept of them, and the estimate of the time left."""

import json
from dataclasses import dataclass, field, replace

import pytest

from mmssprl.experiments.execute import execute_runs, seconds_left, with_needs
from mmssprl.experiments.run import Run, RunFailedError, RunOutcome


@dataclass(frozen=True, eq=False, kw_only=True)
class Adding(Run):
    """Adds a number to those of the runs it needs; fails with a number below zero."""

    number: int
    done: list = field(default_factory=list)

    def settings(self, needed):
        return {"number": self.number, "needed": [outcome.values for outcome in needed]}

    def work(self, needed, threads):
        self.done.append(self.name)
        if self.number < 0:
            raise RunFailedError("below zero")
        return {"sum": self.number + sum(outcome.values["sum"] for outcome in needed)}

    def summary(self, values):
        return f"sum {values['sum']}"


@pytest.fixture
def add(tmp_path):
    done = []

    def add(name, number, *needs):
        folder = tmp_path / name
        return Adding(name=name, kind="k", folder=folder, needs=needs, number=number, done=done)

    add.done = done
    return add


def execute(*runs, num_jobs=1):
    lines = []
    return execute_runs(runs, num_jobs=num_jobs, log=lines.append), lines


@pytest.mark.parametrize("num_jobs", [1, 3])
def test_runs_take_the_outcomes_of_those_they_need(num_jobs, add):
    first, second = add("a", 1), add("b", 2)
    both = add("c", 10, first, second)
    outcomes, lines = execute(add("d", 100, both), second, num_jobs=num_jobs)
    assert [outcome.values for outcome in outcomes] == [{"sum": 113}, {"sum": 2}]
    assert sorted(add.done[:2]) == ["a", "b"]
    assert add.done[2:] == ["c", "d"]
    assert lines[-1] == "[4/4] d: sum 113, 0 s; about 0 min left"
    assert json.loads(both.result_file.read_text())["values"] == {"sum": 13}


def test_what_waits_does_not_hold_up_what_is_ready(add):
    first = add("a", 1)
    execute(first, add("b", 2, first), add("c", 3))
    assert add.done == ["a", "c", "b"]


def test_a_failure_is_told_to_all_that_need_it_and_tried_again(add):
    bad = add("bad", -1)
    middle = add("middle", 1, bad)
    last, other = add("last", 1, middle), add("other", 5)
    outcomes, lines = execute(last, other)
    assert [outcome.reason for outcome in outcomes] == [
        "needs middle, which failed: needs bad, which failed: below zero",
        "",
    ]
    assert add.done == ["bad", "other"]
    assert lines[0].startswith("[1/4] bad: failed, below zero, 0 s; ")
    outcomes, _ = execute(last, other)
    assert add.done == ["bad", "other", "bad"]


def test_only_a_result_of_the_same_settings_counts(add):
    first = add("a", 1)
    run = add("b", 10, first)
    execute(first, run)
    execute(first, run)
    assert add.done == ["a", "b"]
    changed = replace(first, number=2)
    (_, outcome), _ = execute(changed, replace(run, needs=(changed,)))
    assert add.done == ["a", "b", "a", "b"]
    assert outcome.values == {"sum": 12}
    run.result_file.write_text('{"sum": 12, "version": "old"}')
    assert run.kept({}) is None


def test_what_is_complete_needs_nothing(add):
    first = add("a", 1)
    run = add("b", 10, first)
    assert with_needs([run, first]) == [first, run]
    run.keep(RunOutcome({"sum": 11}, 1.0))
    assert with_needs([run]) == [run]


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ([], 0.0),
        (["short", "short"], 40.0),  # their mean is 20
        (["long"], 100.0),
        (["other"], (10 + 30 + 100) / 3),  # unlike any that is known
        (["short", "long", "other"], 20 + 100 + 140 / 3),
    ],
)
def test_time_left_is_that_of_runs_of_the_same_kind(waiting, expected, add):
    def of(kind):
        return replace(add("x", 1), kind=kind)

    known = [("short", 10.0), ("short", 30.0), ("long", 100.0)]
    outcomes = {of(kind): RunOutcome({}, seconds) for kind, seconds in known}
    assert seconds_left([of(kind) for kind in waiting], outcomes) == pytest.approx(expected)


def test_what_is_expected_of_a_run_is_scaled_as_it_turned_out(add):
    done = replace(add("a", 1), kind="a", expected_s=10.0)
    waiting = replace(add("b", 2), kind="b", expected_s=30.0)
    unknown = replace(add("c", 3), kind="c")
    outcomes = {done: RunOutcome({}, 20.0)}
    # 30 s twice, as 10 s became 20; of nothing is known but that a run took 20 s.
    assert seconds_left([waiting, unknown], outcomes) == 60 + 20


def test_a_damaged_result_costs_that_run_alone(add):
    damaged, whole = add("a", 1), add("b", 2)
    damaged.keep(RunOutcome({"sum": 1}, 1.0))
    damaged.result_file.write_text('{"values": {"su')
    (first, second), lines = execute(damaged, whole)
    assert str(damaged.result_file) in first.reason
    assert "is damaged (Unterminated string" in first.reason
    assert "delete it" in first.reason
    assert (second.reason, second.values) == ("", {"sum": 2})
    assert lines[0].startswith("[1/2] a: failed, a result file must be JSON")
