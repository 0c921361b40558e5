"""Runs at a time see each a GPU of their own."""

import json
import sys

import pytest
import torch

from mmssprl.experiments.commands import CommandRun
from mmssprl.experiments.execute import execute_runs
from mmssprl.experiments.gpus import default_jobs, groups_of_gpus

SAY = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / "seen").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
while len(list(folder.parent.glob("*/seen"))) < 2:  # both at a time
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("visible", "size", "groups"),
    [
        (None, 1, ["0", "1", "2", "3", "4"]),
        (None, 2, ["0,1", "2,3"]),
        ("4,GPU-7a,2", 1, ["4", "GPU-7a", "2"]),
        ("4,GPU-7a,2", 4, ["4,GPU-7a,2"]),
    ],
)
def test_groups_of_the_gpus_that_this_process_sees(monkeypatch, visible, size, groups):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert groups_of_gpus(size) == groups
    assert default_jobs(groups) == len(groups)


def test_without_gpus_there_is_a_job_per_core(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("mmssprl.experiments.gpus.usable_cores", lambda: 3)
    assert groups_of_gpus() == []
    assert default_jobs([]) == 3


@pytest.mark.parametrize("groups", [["3", "5"], ["3"], []])
def test_runs_at_a_time_are_spread_over_the_groups(tmp_path, monkeypatch, groups):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all of them")
    runs = []
    for name in ("a", "b"):
        command = (sys.executable, "-c", SAY, str(tmp_path / name))
        runs.append(CommandRun(name=name, kind="k", folder=tmp_path / name, commands=(command,)))
    execute_runs(runs, num_jobs=2, groups=groups, log=lambda line: None)
    seen = sorted((tmp_path / name / "seen").read_text() for name in ("a", "b"))
    assert seen == {2: groups, 1: ["3", "3"], 0: ["all of them"] * 2}[len(groups)]
    assert all(json.loads(run.result_file.read_text())["reason"] == "" for run in runs)
