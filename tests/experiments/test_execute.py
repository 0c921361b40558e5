import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Barrier

import pytest
import torch

from mmssprl.experiments import execute
from mmssprl.experiments.run import Run, RunFailedError, RunOutcome


@dataclass(frozen=True, eq=False, kw_only=True)
class Doubling(Run):
    """Doubles a number; fails with a number below zero."""

    number: int

    def work(self, threads, gpus=""):
        if self.number < 0:
            raise RunFailedError("below zero")
        return {"double": 2 * self.number}

    def summary(self, values):
        return f"double {values['double']}"


@pytest.fixture
def make(tmp_path):
    def make(name, number=1):
        about = {"folder": tmp_path / name, "commands": (), "settings": {"n": number}}
        return Doubling(name=name, number=number, **about)

    return make


def run_all(*runs):
    lines = []
    outcomes = execute.execute_runs(runs, execute.Jobs(), lines.append)
    assert [*outcomes] == [*runs]
    return [*outcomes.values()], lines


def test_a_failure_costs_that_run_alone(make):
    outcomes, lines = run_all(make("bad", -1), make("good"))
    assert [outcomes[0].reason, outcomes[1].values] == ["below zero", {"double": 2}]
    assert lines[0].startswith("[1/2] bad: failed, below zero, 0 s; ")
    with pytest.raises(RuntimeError, match=r"the table: 1 run of 2 failed\. .* below zero\. Fix"):
        execute.require_all("the table", dict(zip("ab", outcomes, strict=True)))
    execute.require_all("the table", {"b": outcomes[1]})


def test_all_runs_share_a_live_line(make, monkeypatch):
    """Its time goes on from run to run, so that lines become rarer."""
    begun = []
    monkeypatch.setattr(execute, "at_work", lambda what: begun.append(what) or nullcontext())
    run_all(make("a"), make("b"), make("c"))
    assert len(begun) == 1


def test_a_damaged_result_is_made_again(make):
    damaged = make("damaged")
    damaged.keep(RunOutcome({"double": 3}, 1.0, dict(damaged.settings)))
    damaged.result_file.write_text(damaged.result_file.read_text()[:20])
    [outcome], _ = run_all(damaged)
    assert outcome.values == {"double": 2}


def test_each_state_of_a_run_is_announced(make):
    runs = [make("a", 1), make("b", 2), make("c", 3)]
    run_all(*runs[::2])
    runs[2] = replace(runs[2], settings={"n": 4})
    lines = []
    execute.announce("runs", runs, lines.append, each=True)
    again = "made with other settings (n), will run again: 1 of them"
    kept = "  their folders are kept, renamed to NAME.replaced-1"
    names = ["  a: complete", "  b: to do", "  c: to do"]
    assert lines == ["runs: 3, 1 of them complete", again, kept, *names]


def test_time_left_is_the_mean_of_what_has_run(make, monkeypatch):
    monkeypatch.setattr(execute.time, "perf_counter", iter(range(0, 10_000, 60)).__next__)
    _, lines = run_all(make("a"), make("b"), make("c"))
    assert [re.search(r"about (\d+) min", line)[1] for line in lines] == ["2", "1", "0"]


@pytest.mark.parametrize(
    ("visible", "size", "groups"),
    [(None, 1, [*"01234"]), (None, 2, ["0,1", "2,3"]), ("4,GPU-7a,2", 4, ["4,GPU-7a,2"])],
)
def test_jobs_are_one_for_each_group_of_the_gpus_that_are_seen(monkeypatch, visible, size, groups):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    monkeypatch.setattr(execute, "usable_cores", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    expected = execute.Jobs(len(groups), 8 // len(groups), groups)
    assert execute.jobs_of_machine(None, size) == expected
    assert execute.jobs_of_machine(3, size) == execute.Jobs(3, 2, groups)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert execute.jobs_of_machine(None, size) == execute.Jobs(8, 1, [])  # one per core


@pytest.mark.parametrize("groups", [["3", "5"], []])
def test_runs_at_a_time_are_spread_over_the_groups(make, monkeypatch, groups):
    both = Barrier(2, timeout=20)
    seen = []

    def work(run, threads, gpus):
        both.wait()  # two at a time
        seen.append(gpus)
        return {"double": 0}

    monkeypatch.setattr(Doubling, "work", work)
    execute.execute_runs([make("a"), make("b")], execute.Jobs(2, groups=groups), print)
    assert sorted(seen) == (groups or ["", ""])
