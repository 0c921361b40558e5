import io
import itertools
import shutil
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.datasets.image_folders import build, folder, make_tar
from helpers.models.chunked_model import make_model
from helpers.timing.paces import PACE
from helpers.timing.profiles import CONFIG, PROFILE, profile_with
from mmengine.config import Config
from mmengine.optim import OptimWrapper

from mmssprl.datasets import tar_images
from mmssprl.errors import UserRuntimeError
from mmssprl.system.environment import torch_threads
from mmssprl.timing import forecast as forecast_module
from mmssprl.timing import training
from mmssprl.timing.forecast import Forecast, forecast_profile, may_start, measure_pace
from mmssprl.timing.stopwatch import PhaseClock
from mmssprl.timing.training import MeasuringHook

CHECKPOINT = {"interval": 10, "max_keep_ckpts": 3}


def forecast_of(pace=PACE, epochs=1, steps_per_epoch=1, checkpoint=CHECKPOINT, work_dir="no/run"):
    return Forecast(pace, epochs, steps_per_epoch, checkpoint, Path(work_dir))


LONG = forecast_of(replace(PACE, step_s=36.0), epochs=130, steps_per_epoch=10)
"""13 h."""


@pytest.fixture
def disk(monkeypatch):
    """2.5 GB are free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2_500_000_000))


def test_the_line_in_closed_form(disk):
    # 200 epochs x 31 steps x 0.5 s = 3100 s; 5 checkpoints of 180 MB and 45 MB
    forecast = forecast_of(epochs=200, steps_per_epoch=31)
    parts = ("200 epochs", "52 min", "1 thread on 2 cores", "1.4 GB", "945 MB", "2,500 MB free")
    assert all(part in forecast.line for part in parts), forecast.line
    line = forecast_of(replace(PACE, num_timed=4, batch_size=32, device="cuda")).line
    assert "about 1 s on this device" in line
    assert line.endswith(" (timed with 4 of the 32 images of a step)")


@pytest.mark.parametrize(
    ("load", "cores", "note"),
    [
        (8.03, 2, " (unreliable: load 8 on 2 cores)"),
        (2.0, 2, " free"),
        (7.4, 64, " free"),  # the whole machine's, of which this run may use two cores
    ],
)
def test_a_forecast_beside_other_work_is_unreliable(load, cores, note, disk, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert forecast_of(replace(PACE, load=load)).line.endswith(note)


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


@pytest.mark.parametrize(
    ("loader", "step_s"),
    [
        ({"num_workers": 0}, 0.380 + 8 * 0.012),
        ({"num_workers": 1, "cores": 2.0}, 0.380 + 8 * 0.012 / 2),
        ({"num_workers": 1, "cores": 2.0, "device": "cuda"}, 0.380),
        ({"num_workers": 1, "cores": 2.0, "device": "cuda", "batch_size": 80}, 8 * 0.012),
    ],
)
def test_a_step_of_all_images_with_what_the_loader_adds(loader, step_s):
    # 200 ms of 4 images, 20 of them the optimizer's: 20 + 2 x 180 ms of 8.
    profile = profile_with(config_batch_size=8, **loader)
    assert profile.pace.step_s == pytest.approx(step_s)


def test_a_long_cpu_run_without_a_terminal_is_refused(monkeypatch):
    assert pytest.approx(13) == LONG.hours
    slow = forecast_of(replace(PACE, step_s=3600.0), epochs=2, steps_per_epoch=20)
    for stdin in (io.StringIO("y\n"), None):
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(UserRuntimeError, match=r"12 h.* 13 h.*epochs \(120 fit.*--yes"):
            may_start(LONG, yes=False)
    with pytest.raises(UserRuntimeError, match="40 h; backbone"):  # no epoch fits
        may_start(slow, yes=False)


@pytest.mark.parametrize(("answer", "starts"), [("y", True), (" Yes ", True), ("", False)])
def test_a_long_cpu_run_at_a_terminal_is_asked_about(answer, starts, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    questions = []
    monkeypatch.setattr("builtins.input", lambda q: questions.append(q) or answer)
    assert may_start(LONG, yes=False) is starts
    assert len(questions) == 1
    assert "13 h" in questions[0]


def test_what_starts_without_a_question(monkeypatch):
    monkeypatch.setattr("builtins.input", None)
    assert may_start(LONG, yes=True)
    assert may_start(replace(LONG, epochs=120), yes=False)
    assert may_start(replace(LONG, pace=replace(PACE, device="cuda")), yes=False)


@pytest.mark.parametrize(
    ("model", "lower"),
    [("SSPRL", "batch_size (accumulate makes up for it) or"), ("BYOL", "batch_size or")],
)
def test_a_process_that_runs_out_of_memory_is_told(model, lower, monkeypatch):
    def end(*args):
        raise BrokenProcessPool

    monkeypatch.setattr("mmssprl.timing.forecast.call_in_process", end)
    with pytest.raises(UserRuntimeError) as caught:
        measure_pace(Config({"model": {"type": f"mmssprl.{model}"}}), amp=False, num_devices=1)
    assert f"lower {lower} use backbone resnet18" in str(caught.value)


def test_the_timing_process_is_given_the_headers_of_tar_files(tmp_path, monkeypatch):
    tar = make_tar(tmp_path / "images.tar", folder(tmp_path / "images", 3))
    assert len(build(tar)) == 3
    index = dict(tar_images.last_index)
    tar_images.last_index.clear()  # as in a new process
    monkeypatch.setattr(tar_images, "_members", None)

    def run(cfg, task, hooks, keep_record):
        assert not keep_record
        assert len(build(tar)) == 3
        hooks[0].profile = PROFILE

    monkeypatch.setattr(forecast_module, "run", run)
    monkeypatch.setattr("mmssprl.timing.forecast.read_config", lambda *_, **__: Config())
    monkeypatch.setattr("mmssprl.timing.forecast.for_measuring", lambda cfg: cfg)
    threads = torch.get_num_threads()
    assert forecast_module._measure(str(CONFIG), False, 1, threads, 0.5, index) == PROFILE.pace


def test_the_pace_is_that_of_the_faster_number_of_threads(tmp_path, monkeypatch):
    def choose(watch, batches):
        yield next(batches)
        torch.set_num_threads(1)
        return 22.5  # so half as many images fit into a timed step

    whole = Config({"train_dataloader": {"batch_size": 8}, "train_cfg": {"max_epochs": 1}})
    whole.default_hooks = {"checkpoint": None}
    options = {"forecasts": True, "num_devices": 1, "load": 2.5}
    hook = MeasuringHook(whole, most=10, max_seconds=8, **options)
    hook.device, hook.clock, hook.loader_ms = "cpu", PhaseClock(), PROFILE.loader_ms
    dataset = build(folder(tmp_path, 8))
    hook.loader = SimpleNamespace(batch_size=8, num_workers=0, dataset=dataset)
    hook.model = make_model()
    wrapper = OptimWrapper(torch.optim.SGD(hook.model.parameters(), lr=0.1))
    cfg, model = Config({"model": {}}), torch.nn.Identity()
    hook.runner = SimpleNamespace(model=model, cfg=cfg, optim_wrapper=wrapper)
    monkeypatch.setattr(training, "choose_threads", choose)
    with torch_threads(2):
        for batch in hook.measured_steps(itertools.repeat({"inputs": [torch.zeros(8)]})):
            hook.runner.model(batch["inputs"][0])
    pace = hook.profile.pace
    assert (pace.threads, pace.load, pace.num_timed, pace.batch_size) == (1, 2.5, 4, 8)


def test_a_profile_tells_the_whole_run(disk):
    profile = profile_with(config_batch_size=8)  # 1000 // 8 steps
    forecast = forecast_profile(profile, "run")
    assert forecast.steps_per_epoch == 125
    assert forecast.pace.memory_bytes == 2**30 + 4 * 3 * 2**20
    assert forecast.disk_bytes == 3 * 180_000_000 + 45_000_000
    assert "20 epochs, about 16 min on this CPU" in forecast.line
    assert "(timed with 4 of the 8 images of a step" in forecast.line
    assert forecast_profile(profile_with(max_epochs=None), "run") is None
    assert forecast_profile(profile_with(num_images=3), "run") is None


def test_the_time_of_probes_counts(disk):
    """34 epochs of 98.6 s; a probe takes 8.5 s."""
    pace = replace(PACE, step_s=9.86, probe_s=8.5, first_probes=2)
    forecast = forecast_of(pace, epochs=34, steps_per_epoch=10)
    assert forecast.num_probes == 2 + 12  # before, after epochs 3, 6, ... and 34
    assert forecast.seconds == pytest.approx(34 * 98.6 + 14 * 8.5)
    assert "34 epochs, about 58 min on" in forecast.line
