import shutil
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.pretraining.paces import PACE
from mmengine.config import Config

from mmssprl.errors import UserRuntimeError
from mmssprl.runs import forecast as forecast_module
from mmssprl.runs.forecast import Forecast, measure_pace

CHECKPOINT = {"interval": 10, "max_keep_ckpts": 3}


def forecast_of(pace=PACE, epochs=1, steps_per_epoch=1, checkpoint=CHECKPOINT, work_dir="no/run"):
    return Forecast(pace, epochs, steps_per_epoch, checkpoint, Path(work_dir))


@pytest.fixture
def disk(monkeypatch):
    """2.5 GB are free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2_500_000_000))


def test_the_line_in_closed_form(disk):
    # 200 epochs x 31 steps x 0.5 s = 3100 s, x 0.4 s = 41 min; 5 checkpoints of 180 MB and 45 MB
    forecast = forecast_of(epochs=200, steps_per_epoch=31)
    work = "on this CPU (41 min of its work), at least 1.4 GB of memory"
    parts = ("200 epochs", "about 52 min", work, "945 MB", "2,500 MB free")
    assert all(part in forecast.line for part in parts), forecast.line
    assert replace(forecast, other_s=60.0).seconds == 3160  # a teacher's, or a report's
    line = forecast_of(replace(PACE, num_timed=4, batch_size=32, device="cuda")).line
    assert "about 1 s on this device" in line
    assert "at least 1.4 GB of memory" in line
    assert line.endswith(" (timed with 4 of the 32 images of a step)")


@pytest.mark.parametrize(
    ("epochs", "checkpoint", "kept"),
    [
        (5, {"interval": 10, "max_keep_ckpts": 3}, 1),  # the last epoch's alone
        (25, {"interval": 10, "max_keep_ckpts": 3}, 3),  # epochs 10, 20, 25
        (40, {"interval": 10, "max_keep_ckpts": 3}, 4),  # the oldest goes when the newest is there
        (40, {"interval": 10}, 4),  # all
    ],
)
def test_checkpoints_that_are_kept(epochs, checkpoint, kept):
    forecast = forecast_of(epochs=epochs, checkpoint=checkpoint)
    # One more is that of a step between them.
    assert forecast.disk_bytes == (kept + 1) * 180_000_000 + 45_000_000


def measure(num_steps=10_000, budget_s=None):
    cfg = Config({"train_dataloader": {"batch_size": 8}})
    return measure_pace(cfg, amp=False, num_devices=1, num_steps=num_steps, budget_s=budget_s)


def test_lack_of_memory_is_one_line(monkeypatch):
    def end(*args):
        raise BrokenProcessPool

    monkeypatch.setattr(forecast_module, "call_in_process", end)
    with pytest.raises(
        UserRuntimeError, match=r"lower batch_size \(accumulate makes up for it\), or"
    ):
        measure()


@pytest.fixture
def timed(monkeypatch):
    """The device of a pace says where it was timed."""

    def answer(name):
        return lambda *args: replace(PACE, device=name)

    monkeypatch.setattr(forecast_module, "_measure", answer("here"))
    monkeypatch.setattr(forecast_module, "call_in_process", answer("in a process"))
    monkeypatch.setattr(forecast_module, "get_device", lambda: "cpu")


def test_the_shortest_runs_are_not_timed(timed, disk):
    pace = measure(num_steps=19)
    line = forecast_of(pace, epochs=1, steps_per_epoch=19).line
    assert line == "forecast: none, as timing would take longer than the 19 steps of the run"


@pytest.mark.parametrize(
    ("num_steps", "budget_s", "where"),
    [(19, 60.0, "here"), (20, None, "here"), (625, None, "here")]
    + [(626, None, "in a process"), (10_000, 60.0, "in a process")],
)
def test_only_long_runs_are_timed_in_a_process(num_steps, budget_s, where, timed):
    assert measure(num_steps=num_steps, budget_s=budget_s).device == where
