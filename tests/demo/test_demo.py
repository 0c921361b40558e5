import csv
import io
from concurrent.futures import Future
from dataclasses import replace

import numba
import pytest
import torch
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.demo import methods as demo
from mmssprl.demo import run as demo_run
from mmssprl.demo import training
from mmssprl.demo.table import epochs_in_equal_time, format_csv, format_table
from mmssprl.demo.training import Training, train_and_probe
from mmssprl.experiments.execute import execute_runs
from mmssprl.experiments.run import RunFailedError
from mmssprl.functional import _cpu_kernels
from mmssprl.models import PyramidPreprocessor

STEPS_PER_EPOCH = 37


def result(method, seed, score, epochs=6, step_seconds=0.1):
    steps = STEPS_PER_EPOCH * epochs
    return {
        "method": method.title,
        "seed": seed,
        "mAP": score,
        "epochs": epochs,
        "steps": steps,
        "step_seconds": step_seconds,
        "seconds": steps * step_seconds,
    }


RESULTS = [
    result(demo.SSPRL, 1, 0.24, step_seconds=0.30),
    result(demo.SSPRL, 0, 0.22, step_seconds=0.40),
    result(demo.SWAV_EPOCHS, 0, 0.19),
    result(demo.SWAV_EPOCHS, 1, 0.20),
    *(result(demo.SWAV_TIME, seed, 0.21, epochs=21) for seed in (0, 1)),
    *(result(demo.SWAV_SMALL_TIME, seed, 0.30, epochs=10) for seed in (0, 1)),
    *(result(demo.SMALL_SAMPLED_TIME, seed, 0.25, epochs=8) for seed in (0, 1)),
    result(demo.RANDOM, 0, 0.17, epochs=0),
    result(demo.RANDOM, 1, 0.15, epochs=0),
]


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_table_by_hand():
    rows = cells(format_table(RESULTS))
    assert [row[0] for row in rows[2:]] == [
        "random weights",
        "SwAV (no small views), equal epochs",
        "SwAV (no small views), equal time",
        "SwAV (six small views), equal time",
        "SS-PRL (paper)",
        "SS-PRL (six small views, sampled patches), equal time",
    ]
    assert rows[2][1:] == ["0", "0", "17.0 / 15.0", "16.0 ± 12.7", ""]  # t(0.975, 1) = 12.7
    # 222 steps: 22.2 s of SwAV; 66.6 and 88.8 s of SS-PRL.
    assert rows[3][1:3] == ["6", "22"]
    assert rows[6][1:] == ["6", "78", "22.0 / 24.0", "23.0 ± 12.7", "+7.0"]


def test_equal_time_is_taken_from_the_median_steps():
    slow = result(demo.SWAV_EPOCHS, 2, 0.2, step_seconds=9.0)  # beside another program
    paced = [*(r for r in RESULTS if r["method"] == demo.SWAV_EPOCHS.title), slow]
    reference = [r for r in RESULTS if r["method"] == demo.SSPRL.title]
    # 77.7 s of SS-PRL at 37 x 0.1 s an epoch of SwAV.
    assert epochs_in_equal_time([*reference, *paced]) == 21
    assert epochs_in_equal_time([*reference, slow]) == 1


def test_csv_holds_every_run():
    rows = list(csv.DictReader(io.StringIO(format_csv(RESULTS))))
    assert len(rows) == len(RESULTS)
    assert rows[0] == {
        "method": "SS-PRL (paper)",
        "seed": "0",
        "mAP": "0.22",
        "epochs": "6",
        "steps": "222",
        "step_seconds": "0.4",
        "seconds": str(222 * 0.4),
    }


class InProcess:
    """Workers that do everything in this process, one after the other."""

    def __init__(self, num_workers, log_file):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *args):
        future = Future()
        future.set_result(function(*args))
        return future

    def call(self, function, *args):
        return function(*args)


STEP_SECONDS = {
    demo.SSPRL.title: 0.35,
    demo.SWAV_SMALL_TIME.title: 0.15,
    demo.SMALL_SAMPLED_TIME.title: 0.3,
}


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """Let a demo train nothing; returns the folder and the settings of each training."""
    events = []

    def pretend(folder, scenes, settings):
        assert scenes == tmp_path / "scenes"
        assert not folder.exists()
        events.append((folder.name, settings))
        (method,) = (m for m in demo.METHODS if m.title == settings["title"])
        epochs = settings["epochs"] or (6 if method.trains else 0)
        score = 0.2 if settings["probed"] else None
        seconds = STEP_SECONDS.get(method.title, 0.1)
        return result(method, settings["seed"], score, epochs, seconds)

    monkeypatch.setattr(demo_run, "Workers", InProcess)
    monkeypatch.setattr(demo_run, "warm_up", lambda: events.append("warm"))
    monkeypatch.setattr(training, "train_and_probe", pretend)
    monkeypatch.setattr(demo_run, "generate_sample", lambda *args: tmp_path / "scenes")
    monkeypatch.setattr(demo_run, "_draw_pictures", lambda *args: [])
    return events


def test_every_row_is_run_after_warming_up_and_for_its_epochs(pretended, tmp_path):
    lines = []
    results = demo_run.run_demo(tmp_path / "demo", num_seeds=2, num_jobs=1, log=lines.append)
    assert pretended[0] == "warm"
    runs = [settings for _, settings in pretended[1:]]
    probed = [settings for settings in runs if settings["probed"]]
    # 6 x 0.35 / 0.1, / 0.15 and / 0.3; the others keep their configs' epochs.
    epochs = {demo.SWAV_TIME: 21, demo.SWAV_SMALL_TIME: 14, demo.SMALL_SAMPLED_TIME: 7}
    assert sorted((s["title"], s["seed"], s["epochs"] or 0) for s in probed) == sorted(
        (method.title, seed, epochs.get(method, 0)) for method in demo.METHODS for seed in (0, 1)
    )
    for settings in runs:
        (method,) = (m for m in demo.METHODS if m.title == settings["title"])
        assert (settings["config"], settings["trains"]) == (method.config, method.trains)
    # Their paces are measured before, once, among the others, and are no result.
    paces = [(s["title"], s["epochs"]) for s in runs if not s["probed"]]
    assert paces == [(demo.SWAV_SMALL_TIME.title, 1), (demo.SMALL_SAMPLED_TIME.title, 1)]
    # Short and long runs alternate.
    assert [name.removesuffix("_seed0") for name, _ in pretended[1:]][:5] == [
        *("ssprl", "swav_equal_epochs", "swav_equal_epochs_seed1"),
        *("swav_small_views_pace", "ssprl_small_views_sampled_pace"),
    ]
    assert len({name for name, _ in pretended[1:]}) == len(runs) == 14
    assert len(results) == 12
    assert all(r["mAP"] is not None for r in results)
    progress = [line for line in lines if line.startswith("[")]
    assert len(progress) == 14
    assert progress[0] == "[ 1/14] SS-PRL (paper), seed 0: mAP 20.0 %, 0 s; about 0 min left"
    assert any("pace of SwAV (six small views): 150 ms a step, " in line for line in progress)
    table = (tmp_path / "demo" / "table.md").read_text()
    assert cells(table)[5][:3] == ["SwAV (six small views), equal time", "14", "78"]
    assert "steps x the median time of a step" in table


def test_a_stopped_demo_goes_on_and_other_epochs_are_trained_anew(pretended, tmp_path, monkeypatch):
    def train():
        del pretended[:]
        demo_run.run_demo(tmp_path / "demo", num_seeds=1, num_jobs=1, log=lambda line: None)
        return [name for name, _ in pretended[1:]]

    assert len(train()) == 8
    (tmp_path / "demo" / "ssprl_seed0" / "result.json").unlink()
    assert train() == ["ssprl_seed0"]
    (tmp_path / "demo" / "ssprl_seed0" / "result.json").unlink()
    monkeypatch.setitem(STEP_SECONDS, demo.SSPRL.title, 0.7)
    names = ["swav", "swav_small_views", "ssprl_small_views_sampled"]
    assert train() == ["ssprl_seed0", *(f"{name}_equal_time_seed0" for name in names)]


def test_a_failure_is_told_when_all_others_have_ended(pretended, tmp_path, monkeypatch):
    class Failing(InProcess):
        def call(self, function, folder, *args):
            if folder.name == "ssprl_seed0":
                raise RunFailedError("OSError: no space left")
            return function(folder, *args)

    monkeypatch.setattr(demo_run, "Workers", Failing)
    lines = []
    message = "the table needs all 8 runs, but 4 failed, see .*; the same command does them again"
    with pytest.raises(RuntimeError, match=message):
        demo_run.run_demo(tmp_path / "demo", num_seeds=1, num_jobs=1, log=lines.append)
    assert len(pretended[1:]) == 4
    assert any("SS-PRL (paper), seed 0: failed, OSError: no space left" in line for line in lines)


def test_warming_up_compiles_what_the_training_calls(monkeypatch):
    calls = []
    monkeypatch.setattr(
        _cpu_kernels, "augment", lambda *args: calls.append([numba.typeof(arg) for arg in args])
    )
    training.warm_up()
    cfg = Config.fromfile(shipped(demo.SWAV_SMALL_TIME.config))
    settings = {key: cfg.model.data_preprocessor[key] for key in cfg.model.data_preprocessor}
    del settings["type"]
    preprocessor = PyramidPreprocessor(cfg.layout, **settings)
    groups = [(group.num_crops, group.px) for group in preprocessor.layout.groups]
    assert groups == [(2, 48), (6, 24)]
    batch = [torch.zeros(2, num, 3, px, px, dtype=torch.uint8) for num, px in groups]
    preprocessor({"inputs": batch}, training=True)
    assert len(calls) >= 3
    assert all(types == calls[0] for types in calls)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=40, num_val=20, size_px=96, progress=False)


def one_run(method, folder, scenes, **changes):
    return Training(
        name="a run",
        kind=method.kind,
        folder=folder,
        method=method,
        seed=0,
        scenes=scenes,
        workers=InProcess(1, None),
        **changes,
    )


@pytest.mark.parametrize("method", [demo.SSPRL, demo.RANDOM])
def test_a_run_trains_probes_and_is_not_done_twice(method, scenes, tmp_path):
    run = one_run(method, tmp_path / "run", scenes, epochs=1)
    (outcome,) = execute_runs([run], num_jobs=1, log=lambda line: None)
    first = outcome.values
    if method is demo.SSPRL:
        for path in demo_run._draw_pictures(run, tmp_path):
            assert path.stat().st_size > 10_000
    assert 0 < first["mAP"] < 1
    # One batch of 32 in 40 images.
    assert (first["epochs"], first["steps"]) == ((1, 1) if method.trains else (0, 0))
    assert (first["step_seconds"] > 0) == method.trains
    assert first["seconds"] == first["step_seconds"]
    files = sorted(path.name for path in run.folder.iterdir())
    assert any(name.endswith("_backbone.pth") for name in files) == method.trains
    run.keep(replace(outcome, values={**first, "mAP": 0.5}))
    (again,) = execute_runs([run], num_jobs=1, log=lambda line: None)
    assert again.values["mAP"] == 0.5


def test_the_clock_counts_the_median_step_and_a_run_may_go_without_a_probe(scenes, tmp_path):
    run = one_run(demo.SWAV_SMALL_TIME, tmp_path / "run", scenes, epochs=3, probed=False)
    found = train_and_probe(run.folder, scenes, run.settings([]))
    state = torch.load(run.folder / "epoch_3.pth", weights_only=True)["message_hub"]
    times = state["log_scalars"]["train/time"]["log_history"].tolist()
    assert len(times) == found["steps"] == 3
    assert found["step_seconds"] == sorted(times)[1]
    assert found["seconds"] == 3 * sorted(times)[1]
    assert found["mAP"] is None


def test_a_result_of_an_older_version_does_not_count(tmp_path):
    run = one_run(demo.SSPRL, tmp_path, tmp_path / "scenes")
    run.result_file.write_text('{"method": "SS-PRL (paper)", "seed": 0, "mAP": 0.2, "epochs": 6}')
    assert run.kept(run.settings([])) is None


def test_a_folder_of_the_user_is_refused_and_left_as_it_was(tmp_path):
    photo = tmp_path / "scenes" / "photo.jpg"
    photo.parent.mkdir()
    photo.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="a folder of its own, but .* other files"):
        demo_run.run_demo(tmp_path, num_seeds=1)
    assert photo.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [photo.parent]


def test_its_own_folder_is_taken_again(tmp_path):
    demo_run.claim(tmp_path / "new" / "demo")
    (tmp_path / "new" / "demo" / "table.md").write_text("")
    demo_run.claim(tmp_path / "new" / "demo")
    assert (tmp_path / "new" / "demo" / "table.md").exists()
