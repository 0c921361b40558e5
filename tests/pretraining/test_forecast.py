"""What a run will take, computed from a step, and when a CPU run does not start."""

import io
import re
from dataclasses import replace

import pytest
import torch
from image_folders import build, folder, make_tar
from mmengine.config import Config
from paces import PACE

from mmssprl.datasets import tar_images
from mmssprl.errors import UserRuntimeError
from mmssprl.pretraining import forecast as forecasting
from mmssprl.pretraining import pace
from mmssprl.pretraining.forecast import Forecast, format_hours, may_start
from mmssprl.pretraining.pace import fitting_images, measure_pace, scaled, with_loader

CHECKPOINT = {"interval": 10, "max_keep_ckpts": 3}
LONG = Forecast(replace(PACE, step_s=36.0), epochs=130, steps_per_epoch=10, checkpoint=CHECKPOINT)
"""13 h."""


def test_the_line_in_closed_form():
    # 200 epochs x 31 steps x 0.5 s = 3100 s; 3 checkpoints of 180 MB and 45 MB
    forecast = Forecast(PACE, epochs=200, steps_per_epoch=31, checkpoint=CHECKPOINT)
    assert forecast.line == (
        "forecast: 200 epochs, about 52 min on this CPU (2 cores), 1.4 GB of memory, "
        "585 MB of checkpoints"
    )
    few = replace(PACE, num_timed=4, batch_size=32, device="cuda")
    line = Forecast(few, epochs=1, steps_per_epoch=1, checkpoint=CHECKPOINT).line
    assert "about 1 s on this device" in line
    assert line.endswith(" (timed with 4 of the 32 images of a step)")
    busy = replace(PACE, load=7.44)
    line = Forecast(busy, epochs=1, steps_per_epoch=1, checkpoint=CHECKPOINT).line
    assert line.endswith(" (other work keeps the cores busy, load 7.4: less without it)")


@pytest.mark.parametrize(
    ("epochs", "checkpoint", "kept"),
    [
        (5, {"interval": 10, "max_keep_ckpts": 3}, 1),  # the last epoch's alone
        (25, {"interval": 10, "max_keep_ckpts": 3}, 3),  # epochs 10, 20, 25
        (40, {"interval": 10, "max_keep_ckpts": 3}, 3),
        (40, {"interval": 10}, 4),  # all
    ],
)
def test_checkpoints_that_are_kept(epochs, checkpoint, kept):
    forecast = Forecast(PACE, epochs=epochs, steps_per_epoch=1, checkpoint=checkpoint)
    assert forecast.disk_bytes == kept * 180_000_000 + 45_000_000


def test_durations():
    hours = {1 / 3600: "1 s", 0.02: "72 s", 0.5: "30 min", 3.44: "3.4 h", 1234: "1,234 h"}
    assert {value: format_hours(value) for value in hours} == hours


def test_how_many_images_are_timed():
    # Four steps in 45 s: 11.25 s a step; 2 images take 1 s.
    assert fitting_images(1.0, 2, 16, 2) == 16
    assert fitting_images(1.0, 2, 32, 2) == 22
    assert fitting_images(1.0, 2, 32, 4) == 20
    assert fitting_images(100.0, 2, 32, 2) == 2


def test_a_step_is_scaled_without_its_optimizer():
    assert scaled(3.0, 1.0, 4, 32) == 17.0
    assert scaled(3.0, 1.0, 32, 32) == 3.0


def test_what_the_loader_adds():
    assert with_loader(4.0, 1.0, num_workers=0, cores=2, on_gpu=False) == 5.0
    assert with_loader(4.0, 1.0, num_workers=1, cores=2, on_gpu=False) == 4.5
    assert with_loader(4.0, 6.0, num_workers=2, cores=8, on_gpu=True) == 4.0
    assert with_loader(1.0, 6.0, num_workers=2, cores=8, on_gpu=True) == 3.0
    assert with_loader(1.0, 6.0, num_workers=8, cores=3, on_gpu=True) == 2.0


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_long_cpu_run_without_a_terminal_is_refused(monkeypatch):
    assert pytest.approx(13) == LONG.hours
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UserRuntimeError) as caught:
        may_start(LONG, yes=False, ask=None)
    text = str(caught.value)
    assert "at most 12 h, but this one would take about 13 h" in text
    assert "--epochs N (120 fit into it), --backbone resnet18 or fewer images" in text
    assert "--yes starts it" in text
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UserRuntimeError, match="--yes"):
        may_start(LONG, yes=False, ask=None)


@pytest.mark.parametrize(("answer", "starts"), [("y", True), (" Yes ", True), ("", False)])
def test_a_long_cpu_run_at_a_terminal_is_asked_about(answer, starts, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    questions = []
    assert may_start(LONG, yes=False, ask=lambda q: questions.append(q) or answer) is starts
    assert len(questions) == 1
    assert re.search(r"about 13 h; .*\. Go on\? \[y/N\] $", questions[0])


@pytest.mark.parametrize(
    ("forecast", "yes"),
    [
        (LONG, True),
        (replace(LONG, epochs=120), False),
        (replace(LONG, pace=replace(PACE, device="cuda")), False),
    ],
)
def test_what_starts_without_a_question(forecast, yes, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    assert may_start(forecast, yes=yes, ask=None)


def test_no_epoch_fits(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    forecast = Forecast(
        replace(PACE, step_s=3600.0), epochs=2, steps_per_epoch=20, checkpoint=CHECKPOINT
    )
    with pytest.raises(UserRuntimeError, match="about 40 h; --backbone resnet18 or fewer images"):
        may_start(forecast, yes=False)
    assert forecasting.MAX_CPU_HOURS == 12


@pytest.mark.parametrize(
    ("model", "lower"),
    [("SSPRL", "--batch-size (--accumulate makes up for it) or"), ("BYOL", "--batch-size or")],
)
def test_a_process_that_runs_out_of_memory_is_told(model, lower, monkeypatch):
    from concurrent.futures.process import BrokenProcessPool

    class Pool:
        def __init__(self, *args):
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *args: None  # noqa: E731

        def submit(self, *args):
            raise BrokenProcessPool

    monkeypatch.setattr("mmssprl.pretraining.pace.ProcessPoolExecutor", Pool)
    with pytest.raises(UserRuntimeError) as caught:
        measure_pace(Config({"model": {"type": f"mmssprl.{model}"}}), amp=False, num_devices=1)
    assert f"not enough memory; lower {lower} use --backbone resnet18" in str(caught.value)


def test_the_timing_process_is_given_the_headers_of_tar_files(tmp_path, monkeypatch):
    tar = make_tar(tmp_path / "images.tar", folder(tmp_path / "images", 3))
    assert len(build(tar)) == 3
    index = dict(tar_images.last_index)
    tar_images.last_index.clear()  # as in a new process
    monkeypatch.setattr(tar_images, "_members", None)

    def run(cfg, task, hooks):
        assert len(build(tar)) == 3
        hooks[0].pace = PACE

    monkeypatch.setattr("mmssprl.engine.launch.run", run)
    monkeypatch.setattr("mmssprl.profiling.training.read_config", lambda *_, **__: Config())
    assert pace._measure("config.py", False, 1, torch.get_num_threads(), index) is PACE
