"""Runs whose commands leave scores at once: what is planned, kept and tabled of them."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from helpers.datasets.labelled_folders import write_class_folders, write_coco, write_weights
from helpers.experiments.tiny_compare import cells, rows
from scipy import stats

from mmssprl.cli import build_parser
from mmssprl.errors import UserValueError
from mmssprl.experiments import finetune
from mmssprl.experiments.execute import Jobs
from mmssprl.experiments.finetune import (
    FinetuneRequest,
    FinetuneRun,
    FineTunings,
    format_table,
    train_one,
)
from mmssprl.experiments.run import RunFailedError
from mmssprl.finetuning import plan
from mmssprl.finetuning.options import FinetuneOptions

FILE = {0: 80.0, 1: 84.0, 2: 85.0}
RANDOM = {0: 60.0, 1: 65.0, 2: 70.0}


def request_in(folder):
    return FinetuneRequest(
        weights=str(write_weights(folder / "weights")),
        baselines=["random"],
        data=str(write_class_folders(folder / "data", per_class=15)),
        task="classify",
        work_dir=folder / "runs",
        seeds=range(3),
        shares=[0.5, 1.0],
        asked=FinetuneOptions(epochs=2, image_px=32),
    )


@pytest.fixture
def request_(tmp_path):
    return request_in(tmp_path)


def pretend(monkeypatch):
    """Give each run its scores at once; return what the runs that were started were asked for."""
    commands = []

    def run(self, threads, gpus):
        commands.append(json.loads((self.folder / "settings.json").read_text()))
        scores = RANDOM if self.row == "random" else FILE
        if self.seed not in scores:
            raise RunFailedError("stopped")
        lost = 10 if self.share < 1 else 0
        score = scores[self.seed] - lost
        content = {"accuracy": score, "num_train": int(24 * self.share), "num_val": 6}
        self.measured_file.parent.mkdir(exist_ok=True)
        content |= {"per_class": {}, "confusion": [], "best": {"epoch": 1, "score": 90.0}}
        self.measured_file.write_text(json.dumps(content))

    monkeypatch.setattr(FinetuneRun, "run_commands", run)
    monkeypatch.setattr(finetune, "jobs_of_machine", lambda num: Jobs())
    return commands


@pytest.fixture
def started(monkeypatch):
    return pretend(monkeypatch)


def call(request_):
    lines = []
    failed = FineTunings(request_, lines.append).start()
    return failed, "\n".join(lines)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two rows by two shares and three seeds: the request, the runs, and the cells of the table."""
    request = request_in(tmp_path_factory.mktemp("finished"))
    with pytest.MonkeyPatch.context() as patch:
        runs = pretend(patch)
        failed, text = call(request)
    assert not failed
    table = {(row[0], row[1]): row for row in cells(text)}
    return SimpleNamespace(request=request, runs=runs, table=table)


def test_each_row_is_run_with_each_seed(finished):
    runs = finished.runs
    expected = [*product(range(3), (0.5, 1.0), (finished.request.weights, "random"))]
    assert [(x["asked"]["seed"], x["asked"]["share"], x["weights"]) for x in runs] == expected


def test_each_row_is_run_with_the_same_options(finished):
    for each in finished.runs:
        assert (each["asked"]["epochs"], each["asked"]["image_px"]) == (2, 32)
        assert each["backbone_from"] == finished.request.weights, "the backbone of the file for all"


def test_the_table_has_the_interval_of_each_row(finished):
    table = finished.table
    t = stats.t.ppf(0.975, 2)
    assert table["tiny_backbone", "100 %"][2:5] == ["24", "3", f"83.0 ± {t * math.sqrt(7 / 3):.1f}"]
    assert table["random", "50 %"][2:5] == ["12", "3", f"55.0 ± {t * math.sqrt(25 / 3):.1f}"]


def test_the_table_has_differences_from_the_file(finished):
    table = finished.table
    assert table["random", "100 %"][5].startswith("-18.0 ± ")
    assert table["random", "100 %"][7] == "worse"
    # Both shares have the same difference: of two in one table Holm doubles the p.
    p = stats.ttest_rel([*RANDOM.values()], [*FILE.values()]).pvalue
    assert table["random", "50 %"][6] == f"{2 * p:.3f}"
    assert table["tiny_backbone", "50 %"][5:] == ["", "", ""]


def test_only_seeds_of_both_rows_are_compared(request_, started, monkeypatch):
    monkeypatch.delitem(RANDOM, 0)  # its run fails
    failed, text = call(replace(request_, shares=[1.0]))
    assert failed == 1
    assert "\nFailed, and in no mean: random, 100 % of the labels, seed 0.\n" in text
    assert "no mean: random" in (request_.work_dir / "table.md").read_text()
    [difference] = [row[5] for row in cells(text) if row[0] == "random"]
    assert difference.startswith("-17.0 ± ")  # of seeds 1 and 2


def test_each_run_is_a_row_of_the_results(finished):
    results = rows(finished.request.work_dir / "results.csv")
    assert len(results) == 12
    assert {x["best_epoch"] for x in results} == {"1"}
    assert "confusion" not in results[0]
    assert (finished.request.work_dir / "table.md").stat().st_size


def test_shares_are_numbers_or_percent():
    words = ["finetune", "w", "d", "--task", "classify", "--share", "1%", "0.25", "100%"]
    assert build_parser().parse_args(words).share == [0.01, 0.25, 1.0]


def test_a_baseline_has_the_backbone_of_the_file(request_, monkeypatch):
    forecast = mock.Mock(side_effect=RunFailedError("this is enough"))
    monkeypatch.setattr(plan, "forecast_finetuning", forecast)
    monkeypatch.setattr(FinetuneRun, "run_commands", lambda run, *_: train_one(run.folder))
    for run in replace(request_, seeds=[0], shares=[1.0]).runs():
        with pytest.raises(RunFailedError, match="enough"):
            run.work(1)
    configs = [call.args[0] for call in forecast.call_args_list]
    assert [cfg.model.backbone.base_channels for cfg in configs] == [8, 8]


def test_a_table_grows_without_repeating_its_runs(request_, started):
    few = replace(request_, baselines=[], shares=[1.0], seeds=range(2))
    for _ in range(2):
        call(few)
        assert len(started) == 2
    failed, text = call(replace(few, baselines=["random"], seeds=range(4)))
    assert (failed, len(started)) == (2, 8)
    assert "tiny_backbone, 100 % of the labels, seed 3: failed, stopped" in text
    assert [row[3] for row in cells(text)[2:]] == ["3", "3"]
    assert len(rows(request_.work_dir / "results.csv")) == 6


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda image: image.rename(image.parent.parent / "disc" / "moved.jpeg"), "labels"),
        (lambda image: image.write_bytes(image.read_bytes() + b"0"), "images"),
    ],
)
def test_changed_data_are_refused_beside_the_scores_of_the_others(change, what, request_, started):
    call(request_)
    started.clear()
    change(next(Path(request_.data).rglob("square/*.jpeg")))
    with pytest.raises(UserValueError, match=rf"same contents\.{what}, but .* changed since .*dir"):
        call(request_)
    assert started == []


def test_other_epochs_than_the_tables_are_refused(finished, started):
    other = replace(finished.request, asked=replace(finished.request.asked, epochs=3))
    with pytest.raises(UserValueError, match="same epochs, but .* started with 2 and got 3"):
        call(other)
    assert started == []


@pytest.fixture
def trained_after(tmp_path, monkeypatch):
    """Train a run that was stopped when it had only this file; return what it was asked for."""
    asked = []
    monkeypatch.setattr(finetune, "run_finetuning", lambda planner, *_: asked.append(planner.asked))
    settings = {"weights": "random", "data": "data", "task": "classify", "asked": {"epochs": 2}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "run").mkdir()

    def trained_after(name):
        (tmp_path / "run" / name).write_text("")
        train_one(tmp_path)
        return asked

    return trained_after


def test_a_stopped_run_resumes(trained_after, tmp_path):
    assert trained_after("classify.py") == [FinetuneOptions(resume=True)]
    assert (tmp_path / "run").exists()


def test_a_stopped_run_without_a_config_starts_again(trained_after, tmp_path):
    assert trained_after("train.json") == [FinetuneOptions(epochs=2)]
    assert not (tmp_path / "run").exists()


def test_a_table_of_several_versions_or_devices_says_so(monkeypatch):
    measured = {"accuracy": 50.0, "num_train": 9}
    monkeypatch.setattr(finetune, "__version__", "9.1")
    old, *runs = [
        FinetuneRun(name="", folder=Path(), commands=(), row="a", share=1.0, seed=seed)
        for seed in range(3)
    ]
    results = {}
    for run, gpus in zip(runs, (None, 1), strict=True):
        monkeypatch.setattr(finetune, "choose_gpus", lambda asked, gpus=gpus: gpus)
        assert "which may train" not in format_table({run: run.read(measured)}, "a")
        results[run] = run.read(measured)
    text = format_table({old: measured, **results}, "a")
    assert "The runs are of mmssprl 0.3.0 or older, 9.1, which may train differently." in text
    assert "The runs are of a CPU and a GPU, which may train other models." in text


def test_a_seed_without_a_score_is_no_row(request_):
    run = request_.runs()[0]
    assert run.read({"box AP": 50.0, "num_train": 9, "per_class": {}})["box AP"] == 50
    with pytest.raises(RunFailedError, match="no object of the val images that this seed"):
        run.read({"num_train": 9, "num_val": 1, "per_class": {}})


@pytest.mark.full
def test_nothing_starts_without_a_score(request_, started, tmp_path):
    path = write_coco(tmp_path / "coco") / "valid/_annotations.coco.json"
    path.write_text(path.read_text().replace('"iscrowd": 0', '"iscrowd": 1'))
    with pytest.raises(UserValueError, match="compared by their scores, but no object of val"):
        call(replace(request_, data=str(tmp_path / "coco"), task="detect"))
    assert started == []
    assert not request_.work_dir.exists()
