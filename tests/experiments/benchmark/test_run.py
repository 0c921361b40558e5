from dataclasses import replace

from helpers.experiments.tiny_benchmark import script_commands, script_run

from mmssprl.experiments.benchmark.start import BenchmarkPlan
from mmssprl.experiments.execute import Jobs, execute_runs
from mmssprl.experiments.run import Run, RunOutcome


def test_the_summary_is_the_main_metric(tmp_path):
    assert script_run(tmp_path).summary({"mAP": 50.0}) == "mAP 50.0 %"
    assert script_run(tmp_path, name="detection").summary({"AP50": 60.0}) == "done"


def test_a_test_without_the_metrics_is_a_failure_and_done_again(tmp_path):
    run, metrics = script_run(tmp_path), '{"accuracy/top1": 1.0, "multi-label/mAP": NaN}'
    writes = f"open({str(run.measured_file)!r}, 'w').write({metrics!r})"
    run = replace(run, commands=script_commands(writes))
    [outcome] = execute_runs([run], Jobs(), lambda line: None).values()
    assert outcome.values == {}
    assert "none of the protocol's metrics" in outcome.reason
    assert not run.result_file.exists()
    assert not run.measured_file.exists()


def test_a_training_is_left_out_when_nothing_starts_from_it_any_more(tmp_path):
    training = Run(name="t", folder=tmp_path / "pre", commands=(), measures="")
    complete = script_run(tmp_path, weights="supervised")
    complete.keep(RunOutcome({"mAP": 30.0}, 1.0))
    runs = complete, script_run(tmp_path, weights="random")
    assert BenchmarkPlan(runs, trainings={"supervised": training}).waiting == []
    # Nor when it has ended.
    training.keep(RunOutcome({}, 1.0))
    waits = script_run(tmp_path, weights="supervised", seed=1)
    plan = BenchmarkPlan((waits,), trainings={"supervised": training})
    assert plan.shell_lines() == [waits.shell_line()]
