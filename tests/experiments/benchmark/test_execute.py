import re
from dataclasses import replace

import pytest
from tiny_benchmark import gives, script_commands, script_run

from mmssprl.experiments.benchmark.plan import BenchmarkPlan
from mmssprl.experiments.benchmark.results import TransferResult, find_results
from mmssprl.experiments.commands import CommandRun
from mmssprl.experiments.run import RunOutcome

MAP_50 = '{"multi-label/mAP": 50.0}'


def execute_runs(*runs, num_jobs=1, threads=1, skipped=()):
    """The results in the order of their weights, and the lines of the log."""
    lines = []
    plan = BenchmarkPlan(runs, tuple(skipped))
    results = plan.execute(num_jobs=num_jobs, threads=threads, log=lines.append)
    return sorted(results, key=lambda result: (result.weights, result.seed)), lines


def measuring(folder, *scripts, metrics=MAP_50, **names):
    """A run whose last command writes metrics."""
    run = script_run(folder, **names)
    return replace(run, commands=script_commands(*scripts, gives(run, metrics)))


def training(folder, script):
    """A run that others need, and that measures nothing."""
    return CommandRun(
        name="the training", kind="training", folder=folder, commands=script_commands(script)
    )


def keep(run, seconds):
    """Leave the result of an earlier call."""
    outcome = RunOutcome({"mAP": 30.0}, seconds)
    run.keep(outcome)
    return run.result(outcome)


def wait_for(path):
    """A script that ends when a file is there, or fails after 20 s."""
    return (
        "import os, time\n"
        "end = time.monotonic() + 20\n"
        f"while not os.path.exists({str(path)!r}):\n"
        "    assert time.monotonic() < end\n"
        "    time.sleep(0.01)\n"
    )


def touch(path):
    return f"open({str(path)!r}, 'w').close()\n"


class TestResults:
    def test_commands_run_in_order_and_the_result_is_kept(self, tmp_path):
        run = measuring(tmp_path, "print('training')", "print('testing')")
        (result,), _ = execute_runs(run)
        assert (result.status, result.metrics, result.reason) == ("done", {"mAP": 50.0}, "")
        assert (result.protocol, result.weights, result.seed) == ("linear-coco", "w", 0)
        assert result.seconds > 0
        assert run.result(run.kept({})) == result
        assert (run.folder / "run.log").read_text() == "training\ntesting\n"

    def test_complete_runs_are_never_run_again(self, tmp_path):
        ran = tmp_path / "ran"
        run = measuring(tmp_path, touch(ran))
        kept = keep(run, 12.0)
        results, lines = execute_runs(run)
        assert results == [kept]
        assert lines == ["[1/1] linear-coco, w, seed 0: mAP 30.0 %, 12 s; about 0 min left"]
        assert not ran.exists()

    def test_metrics_of_a_slurm_task_are_collected(self, tmp_path):
        ran = tmp_path / "ran"
        run = measuring(tmp_path, touch(ran))
        run.folder.mkdir(parents=True)
        run.metrics_file.write_text('{"multi-label/mAP": 12.5}')
        (result,), _ = execute_runs(run)
        assert (result.status, result.metrics) == ("done", {"mAP": 12.5})
        assert run.result(run.kept({})) == result
        assert not ran.exists()

    def test_skipped_runs_are_reported(self, tmp_path):
        skipped = TransferResult("detection", "x", 0, {}, 0.0, "skipped", "needs mmdet")
        results, lines = execute_runs(measuring(tmp_path), skipped=[skipped])
        assert results[1] == skipped
        assert len(results) == 2
        assert len(lines) == 1

    def test_threads_of_each_command(self, tmp_path):
        run = measuring(tmp_path, "import os; print(os.environ['OMP_NUM_THREADS'])")
        execute_runs(run, threads=3)
        assert (run.folder / "run.log").read_text() == "3\n"


class TestFailures:
    def test_a_failed_run_says_why_and_the_others_go_on(self, tmp_path):
        script = "import sys; print('first'); sys.stderr.write('why it failed\\n\\n'); sys.exit(3)"
        bad = measuring(tmp_path, script, weights="bad")
        results, lines = execute_runs(bad, measuring(tmp_path, weights="good"))
        log = bad.folder / "run.log"
        assert (results[0].status, results[0].metrics) == ("failed", {})
        assert results[0].reason == f"why it failed (exit code 3, {log})"
        assert results[1].status == "done"
        # The test does not follow a failed training.
        assert not bad.metrics_file.exists()
        assert not bad.result_file.exists()
        assert log.read_text() == "first\nwhy it failed\n\n"
        assert lines[0].startswith(
            f"[1/2] linear-coco, bad, seed 0: failed, why it failed (exit code 3, {log}), "
        )

    def test_the_next_call_tries_again_and_keeps_the_log(self, tmp_path):
        tried = tmp_path / "tried"
        script = (
            f"import os, sys\nprint('an attempt')\nif not os.path.exists({str(tried)!r}):\n"
            f"    {touch(tried)}    sys.exit(1)\n"
        )
        run = measuring(tmp_path, script)
        (first,), _ = execute_runs(run)
        (second,), _ = execute_runs(run)
        assert (first.status, second.status) == ("failed", "done")
        assert (run.folder / "run.log").read_text() == "an attempt\nan attempt\n"

    def test_long_and_absent_reasons(self, tmp_path):
        long = measuring(tmp_path, "import sys; print('x' * 500); sys.exit(1)", weights="a")
        silent = measuring(tmp_path, "import os, signal; os.kill(os.getpid(), 9)", weights="b")
        (first, second), _ = execute_runs(long, silent)
        assert first.reason == f"{'x' * 200} (exit code 1, {long.folder / 'run.log'})"
        assert second.reason == f"no output (exit code -9, {silent.folder / 'run.log'})"

    def test_a_test_without_the_metrics(self, tmp_path):
        run = measuring(tmp_path, metrics='{"accuracy/top1": 1.0, "multi-label/mAP": NaN}')
        (result,), _ = execute_runs(run)
        assert result.status == "failed"
        assert result.reason == "the test gave none of the protocol's metrics"
        assert not run.result_file.exists()
        assert not run.metrics_file.exists()  # so that the next call tests again

    def test_the_reason_is_of_this_attempt(self, tmp_path):
        silent = measuring(tmp_path, "raise SystemExit(3)")
        silent.folder.mkdir(parents=True)
        (silent.folder / "run.log").write_text("an earlier attempt\n")
        (result,), _ = execute_runs(silent)
        assert result.reason.startswith("no output (exit code 3, ")

    def test_results_of_earlier_calls_are_found_beside_the_planned_ones(self, tmp_path):
        folder = tmp_path / "runs/w/linear-coco"
        runs = [replace(script_run(tmp_path, seed=i), folder=folder / f"seed{i}") for i in (0, 1)]
        results = [keep(run, 1.0) for run in runs]
        (folder / "seed2").mkdir()
        assert find_results(tmp_path, results[:1]) == results[1:]


class TestPretraining:
    @pytest.mark.parametrize("collected", [False, True])
    def test_is_left_out_when_nothing_starts_from_it_any_more(self, collected, tmp_path):
        ran = tmp_path / "ran"
        before = training(tmp_path / "pre", touch(ran))
        complete = measuring(tmp_path, weights="supervised", needs=(before,))
        if collected:
            complete.folder.mkdir(parents=True)
            complete.metrics_file.write_text(MAP_50)
        else:
            keep(complete, 1.0)
        results, _ = execute_runs(complete, measuring(tmp_path, weights="random"))
        assert [result.status for result in results] == ["done", "done"]
        assert not ran.exists()


class TestSeveralJobs:
    def test_two_runs_at_a_time_meet(self, tmp_path):
        a, b = tmp_path / "a", tmp_path / "b"
        runs = [
            measuring(tmp_path, touch(a) + wait_for(b), seed=0),
            measuring(tmp_path, touch(b) + wait_for(a), seed=1),
        ]
        results, _ = execute_runs(*runs, num_jobs=2)
        assert [result.status for result in results] == ["done", "done"]

    @pytest.mark.parametrize("num_jobs", [1, 2])
    def test_never_more_than_asked(self, num_jobs, tmp_path):
        times = "import time\nprint(time.monotonic())\ntime.sleep(0.15)\nprint(time.monotonic())\n"
        runs = [measuring(tmp_path, times, seed=seed) for seed in range(5)]
        results, _ = execute_runs(*runs, num_jobs=num_jobs)
        assert [result.status for result in results] == ["done"] * 5
        spans = [
            [float(line) for line in (run.folder / "run.log").read_text().split()] for run in runs
        ]
        # At the start of each run, how many are under way.
        at_once = [sum(start <= now < end for start, end in spans) for now, _ in spans]
        assert max(at_once) <= num_jobs


class TestTimeLeft:
    def test_line_after_each_run(self, tmp_path):
        go = tmp_path / "go"
        known = measuring(tmp_path, weights="known")
        keep(known, 1200.4)
        waiting = [
            measuring(tmp_path, wait_for(go), weights="waiting", seed=seed) for seed in range(9)
        ]
        lines = []

        def log(line):
            lines.append(line)
            go.touch()  # only now the others can end

        BenchmarkPlan((known, *waiting), ()).execute(num_jobs=3, threads=1, log=log)
        # 9 runs of 20 min, 3 at a time.
        assert lines[0] == (
            "[ 1/10] linear-coco, known, seed 0: mAP 30.0 %, 1200 s; about 60 min left"
        )
        assert len(lines) == 10
        pattern = r"\[10/10\] linear-coco, waiting, seed \d: mAP 50\.0 %, \d+ s; about 0 min left"
        assert re.fullmatch(pattern, lines[-1])

    def test_main_metric_is_shown_or_only_that_it_is_done(self, tmp_path):
        run = script_run(tmp_path, name="detection")
        assert run.summary({"AP": 12.34, "AP50": 60.0}) == "AP 12.3 %"
        assert run.summary({"AP50": 60.0}) == "done"
