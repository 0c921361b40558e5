import csv
import json
from concurrent.futures import Future

import numba
import pytest
import torch
from mmengine.config import Config

from mmssprl import demo
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.demo import run as demo_run
from mmssprl.functional import _cpu_kernels
from mmssprl.models import PyramidPreprocessor
from mmssprl.shipped import shipped

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
    result(demo.SWAV_TIME, 0, 0.21, epochs=21),
    result(demo.SWAV_TIME, 1, 0.21, epochs=21),
    result(demo.SWAV_SMALL_TIME, 0, 0.30, epochs=10),
    result(demo.SWAV_SMALL_TIME, 1, 0.30, epochs=10),
    result(demo.RANDOM, 0, 0.17, epochs=0),
    result(demo.RANDOM, 1, 0.15, epochs=0),
]


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_table_by_hand():
    rows = cells(demo.format_table(RESULTS))
    assert [row[0] for row in rows[2:]] == [
        "random weights",
        "SwAV (no small views), equal epochs",
        "SwAV (no small views), equal time",
        "SwAV (six small views), equal time",
        "SS-PRL",
    ]
    assert rows[2][1:] == ["0", "0", "17.0 / 15.0", "16.0 ± 1.4", ""]
    # 222 steps: 22.2 s of SwAV; 66.6 and 88.8 s of SS-PRL.
    assert rows[3][1:3] == ["6", "22"]
    assert rows[6][1:] == ["6", "78", "22.0 / 24.0", "23.0 ± 1.4", "+7.0"]


def test_equal_time_is_taken_from_the_median_steps():
    slow = result(demo.SWAV_EPOCHS, 2, 0.2, step_seconds=9.0)  # beside another program
    paced = [*(r for r in RESULTS if r["method"] == demo.SWAV_EPOCHS.title), slow]
    reference = [r for r in RESULTS if r["method"] == demo.SSPRL.title]
    # 77.7 s of SS-PRL at 37 x 0.1 s an epoch of SwAV.
    assert demo.epochs_in_equal_time(reference, paced) == 21
    assert demo.epochs_in_equal_time(reference, [slow]) == 1


def test_csv_holds_every_run(tmp_path):
    demo.write_csv(RESULTS, tmp_path / "results.csv")
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(RESULTS)
    assert rows[0] == {
        "method": "SS-PRL",
        "seed": "0",
        "mAP": "0.22",
        "epochs": "6",
        "steps": "222",
        "step_seconds": "0.4",
        "seconds": str(222 * 0.4),
    }


class InProcess:
    """A pool that does at once, in this process, what is submitted."""

    def __init__(self, *args, **kwargs):
        self.submitted = []

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def submit(self, function, *args):
        self.submitted.append((function, *args))
        future = Future()
        future.set_result(function(*args))
        return future


STEP_SECONDS = {demo.SSPRL: 0.35, demo.SWAV_SMALL_TIME: 0.15}


def fake_execute(run):
    epochs = run.epochs or (6 if run.method.trains else 0)
    score = 0.2 if run.probed else None
    return result(run.method, run.seed, score, epochs, STEP_SECONDS.get(run.method, 0.1))


def test_every_row_is_run_after_warming_up_and_for_its_epochs(tmp_path, monkeypatch):
    pool, events, lines = InProcess(), [], []
    monkeypatch.setattr(demo_run, "ProcessPoolExecutor", lambda *args, **kwargs: pool)
    monkeypatch.setattr(demo_run, "warm_up", lambda: events.append("warm"))
    monkeypatch.setattr(demo_run, "execute", lambda run: events.append(run) or fake_execute(run))
    monkeypatch.setattr(demo_run, "_draw_scenes", lambda *args: tmp_path / "scenes")
    monkeypatch.setattr(demo_run, "_draw_pictures", lambda *args: [])
    results = demo.run_demo(tmp_path / "demo", num_seeds=2, log=lines.append)
    assert events[0] == "warm"
    runs = events[1:]
    probed = [run for run in runs if run.probed]
    epochs = {
        method: {run.epochs for run in probed if run.method == method} for method in demo.METHODS
    }
    # 6 x 0.35 / 0.1 and 6 x 0.35 / 0.15; the others keep their configs' epochs.
    assert epochs[demo.SWAV_TIME] == {21}
    assert epochs[demo.SWAV_SMALL_TIME] == {14}
    assert [epochs[m] for m in (demo.RANDOM, demo.SWAV_EPOCHS, demo.SSPRL)] == [{None}] * 3
    assert sorted((run.method.key, run.seed) for run in probed) == sorted(
        (method.key, seed) for method in demo.METHODS for seed in (0, 1)
    )
    # Their pace is measured before, once, among the others, and is no result.
    [pace] = [run for run in runs if not run.probed]
    assert (pace.method, pace.epochs) == (demo.SWAV_SMALL_TIME, 1)
    assert runs.index(pace) < min(runs.index(run) for run in runs if run.epochs == 14)
    assert len({run.work_dir for run in runs}) == len(runs)
    assert len(results) == 10
    assert all(r["mAP"] is not None for r in results)
    progress = [line for line in lines if line.startswith("[")]
    assert len(progress) == 10
    assert progress[-1].startswith("[100%]")
    table = (tmp_path / "demo" / "table.md").read_text()
    assert cells(table)[5][:3] == ["SwAV (six small views), equal time", "14", "78"]
    assert "steps x the median time of a step" in table


def test_warming_up_compiles_what_the_training_calls(monkeypatch):
    calls = []
    monkeypatch.setattr(
        _cpu_kernels, "augment", lambda *args: calls.append([numba.typeof(arg) for arg in args])
    )
    demo.warm_up()
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


@pytest.mark.parametrize("method", [demo.SSPRL, demo.RANDOM])
def test_a_run_trains_probes_and_is_not_done_twice(method, scenes, tmp_path):
    run = demo.Run(method, 0, tmp_path / "run", scenes, epochs=1)
    first = demo.execute(run)
    if method is demo.SSPRL:
        for path in demo_run._draw_pictures(run, tmp_path):
            assert path.stat().st_size > 10_000
    assert 0 < first["mAP"] < 1
    # One batch of 32 in 40 images.
    assert (first["epochs"], first["steps"]) == ((1, 1) if method.trains else (0, 0))
    assert (first["step_seconds"] > 0) == method.trains
    assert first["seconds"] == first["step_seconds"]
    assert json.loads(run.result_file.read_text()) == first
    files = sorted(path.name for path in run.work_dir.iterdir())
    assert any(name.endswith("_backbone.pth") for name in files) == method.trains
    run.result_file.write_text(json.dumps({**first, "mAP": 0.5}))
    assert demo.execute(run)["mAP"] == 0.5


def test_the_clock_counts_the_median_step_and_a_run_may_go_without_a_probe(scenes, tmp_path):
    run = demo.Run(demo.SWAV_SMALL_TIME, 0, tmp_path / "run", scenes, epochs=3, probed=False)
    found = demo.execute(run)
    state = torch.load(run.work_dir / "epoch_3.pth", weights_only=False)["message_hub"]
    times = state["log_scalars"]["train/time"].data[0].tolist()
    assert len(times) == found["steps"] == 3
    assert found["step_seconds"] == sorted(times)[1]
    assert found["seconds"] == 3 * sorted(times)[1]
    assert found["mAP"] is None


def test_a_result_of_an_older_version_does_not_count(tmp_path):
    run = demo.Run(demo.SSPRL, 0, tmp_path, tmp_path / "scenes")
    assert run.read_result() is None
    new = result(demo.SSPRL, 0, 0.2)
    for old in (
        {"method": "SS-PRL", "seed": 0, "mAP": 0.2, "epochs": 6, "seconds": 78.0},
        {**new, "method": "SwAV, equal time"},
    ):
        run.result_file.write_text(json.dumps(old))
        assert run.read_result() is None
    run.result_file.write_text(json.dumps(new))
    assert run.read_result() == new


def test_a_folder_of_the_user_is_refused_and_left_as_it_was(tmp_path):
    photo = tmp_path / "scenes" / "photo.jpg"
    photo.parent.mkdir()
    photo.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="needs a folder of its own, but .* other files"):
        demo.run_demo(tmp_path, num_seeds=1)
    assert photo.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [photo.parent]


def test_its_own_folder_is_taken_again(tmp_path):
    demo.claim(tmp_path / "new" / "demo")
    (tmp_path / "new" / "demo" / "table.md").write_text("")
    demo.claim(tmp_path / "new" / "demo")
    assert (tmp_path / "new" / "demo" / "table.md").exists()
