"""Runs whose commands leave scores at once: what is planned, kept and tabled of them."""

import json
import math
from dataclasses import replace
from itertools import product
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
    train_one,
)
from mmssprl.experiments.run import RunFailedError
from mmssprl.finetuning import plan
from mmssprl.finetuning.options import FinetuneOptions

FILE = {0: 80.0, 1: 84.0, 2: 85.0}
RANDOM = {0: 60.0, 1: 65.0, 2: 70.0}


@pytest.fixture
def request_(tmp_path):
    return FinetuneRequest(
        weights=str(write_weights(tmp_path / "weights")),
        baselines=["random"],
        data=str(write_class_folders(tmp_path / "data", per_class=15)),
        task="classify",
        work_dir=tmp_path / "runs",
        seeds=range(3),
        shares=[0.5, 1.0],
        asked=FinetuneOptions(epochs=2, image_px=32),
    )


@pytest.fixture
def started(monkeypatch):
    """What the runs that were started were asked for; each has its scores at once."""
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


def call(request_):
    lines = []
    failed = FineTunings(request_, lines.append).start()
    return failed, "\n".join(lines)


def test_one_table_with_intervals_and_differences(request_, started):
    failed, text = call(request_)
    assert not failed
    for each in started:
        assert (each["asked"]["epochs"], each["asked"]["image_px"]) == (2, 32)
        assert each["backbone_from"] == started[0]["weights"], "the backbone of the file for all"
    expected = [*product(range(3), (0.5, 1.0), (started[0]["weights"], "random"))]
    assert [(x["asked"]["seed"], x["asked"]["share"], x["weights"]) for x in started] == expected
    found = {(row[0], row[1]): row for row in cells(text)}
    t = stats.t.ppf(0.975, 2)
    assert found["tiny_backbone", "100 %"][2:5] == ["24", "3", f"83.0 ± {t * math.sqrt(7 / 3):.1f}"]
    assert found["random", "50 %"][2:5] == ["12", "3", f"55.0 ± {t * math.sqrt(25 / 3):.1f}"]
    assert found["random", "100 %"][5].startswith("-18.0 ± ")
    assert found["random", "100 %"][7] == "worse"
    # Both shares have the same difference: of two in one table Holm doubles the p.
    p = stats.ttest_ind([*RANDOM.values()], [*FILE.values()], equal_var=False).pvalue
    assert found["random", "50 %"][6] == f"{2 * p:.3f}"
    assert found["tiny_backbone", "50 %"][5:] == ["", "", ""]
    results = rows(request_.work_dir / "results.csv")
    assert len(results) == 12
    assert {x["best_epoch"] for x in results} == {"1"}
    assert "confusion" not in results[0]
    assert (request_.work_dir / "table.md").stat().st_size


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


def test_results_are_kept_and_rows_and_seeds_may_be_added(request_, started):
    few = replace(request_, baselines=[], shares=[1.0], seeds=range(2))
    for _ in range(2):
        call(few)
        assert len(started) == 2
    failed, text = call(replace(few, baselines=["random"], seeds=range(4)))
    assert (failed, len(started)) == (2, 8)
    assert "tiny_backbone, 100 % of the labels, seed 3: failed, stopped" in text
    assert [row[3] for row in cells(text)[2:]] == ["3", "3"]
    assert len(rows(request_.work_dir / "results.csv")) == 6
    with pytest.raises(UserValueError, match="same epochs, but .* started with 2 and got 3"):
        call(replace(few, asked=replace(few.asked, epochs=3)))


def test_a_stopped_run_resumes_and_one_without_config_starts_again(tmp_path, monkeypatch):
    asked = []
    inner = tmp_path / "run"
    monkeypatch.setattr(finetune, "run_finetuning", lambda planner, *_: asked.append(planner.asked))
    settings = {"weights": "random", "data": "data", "task": "classify", "asked": {"epochs": 2}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    for name in ("train.json", "classify.py"):
        inner.mkdir()
        (inner / name).write_text("")
        train_one(tmp_path)
        assert inner.exists() == (name == "classify.py")
    assert asked == [FinetuneOptions(epochs=2), FinetuneOptions(resume=True)]


@pytest.mark.full
def test_nothing_starts_without_a_score(request_, started, tmp_path):
    path = write_coco(tmp_path / "coco") / "valid/_annotations.coco.json"
    path.write_text(path.read_text().replace('"iscrowd": 0', '"iscrowd": 1'))
    with pytest.raises(UserValueError, match="compared by their scores, but no object of val"):
        call(replace(request_, data=str(tmp_path / "coco"), task="detect"))
    assert started == []
    assert not request_.work_dir.exists()
