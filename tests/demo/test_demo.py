import json

import pytest
from helpers.package.default_scope import own_default_scope

from mmssprl.datasets.scenes import generate_scenes
from mmssprl.demo import run as demo
from mmssprl.experiments.compare.training import train_and_probe
from mmssprl.experiments.run import Run, RunFailedError

STEPS_PER_EPOCH = 37
STEP_SECONDS = {"ssprl": 0.35, "swav-small": 0.15, "ssprl-small-sampled": 0.3}
ROWS = {row.title: row for row in (*demo.ROWS, *demo._PACES)}


def result(row, seed, score, epochs=6, step_seconds=0.1):
    steps = STEPS_PER_EPOCH * epochs
    made = {"method": row.title, "seed": seed, "mAP": score, "epochs": epochs, "steps": steps}
    return {**made, "step_seconds": step_seconds, "seconds": steps * step_seconds}


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_table_by_hand():
    results = [result(row, seed, 0.2 + seed / 50) for row in demo.ROWS[1:] for seed in (0, 1)]
    results += [result(demo.RANDOM, 0, 0.17, 0), result(demo.RANDOM, 1, 0.15, 0)]
    rows = cells(demo.format_table(results))
    assert [row[0] for row in rows[2:]] == [
        "random weights",
        "SwAV (no small views), equal epochs",
        "SwAV (no small views), equal time",
        "SwAV (six small views), equal time",
        "SS-PRL (paper)",
        "SS-PRL (six small views, sampled patches), equal time",
    ]
    assert rows[2][1:] == ["0", "0", "17.0 / 15.0", "16.0 ± 12.7", ""]  # t(0.975, 1) = 12.7
    assert rows[6][1:] == ["6", "22", "20.0 / 22.0", "21.0 ± 12.7", "+5.0"]  # 222 steps of 0.1 s


def test_equal_time_is_taken_from_the_median_steps():
    paced = [result(demo.SWAV, seed, 0.2) for seed in (0, 1)]
    paced.append(result(demo.SWAV, 2, 0.2, step_seconds=9.0))  # beside another program
    small, sampled = demo._PACES
    paces = [result(small, 0, 0.2, 1, 0.2), result(sampled, 0, 0.2, 1, 90.0)]
    reference = [result(demo.SSPRL, 0, 0.2, step_seconds=s) for s in (0.3, 0.4)]
    # 77.7 s of SS-PRL at 37 x 0.1 s an epoch of SwAV, and 37 x 0.2 s.
    epochs = demo.epochs_in_equal_time([*reference, *paced, *paces])
    assert epochs == {"swav": 21, "swav-small": 10, "ssprl-small-sampled": 1}


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """Let a demo train nothing; returns its runs, by title, seed and epochs."""
    done = []

    def run_commands(run, threads, gpus):
        assert (threads, gpus) == (1, "-1")
        done.append(run)
        row, epochs = ROWS[run.described["method"]], run.described["epochs"]
        values = {"mAP": 0.2, "chance_mAP": 0.1}
        if epochs:
            seconds = STEP_SECONDS.get(row.method_key, 0.1)
            values |= {"steps": STEPS_PER_EPOCH * epochs, "step_seconds": seconds}
        run.measured_file.write_text(json.dumps(values))

    monkeypatch.setattr(Run, "run_commands", run_commands)
    monkeypatch.setattr(demo, "generate_sample", lambda *args: tmp_path / "scenes")
    monkeypatch.setattr(demo, "_draw_pictures", lambda *args: [])
    return done


def test_every_row_is_run_for_its_epochs_and_tabled(pretended, tmp_path):
    lines = []
    work_dir = tmp_path / "demo"
    results = demo.run_demo(work_dir, num_seeds=2, num_jobs=1, log=lines.append)
    names = [run.folder.name for run in pretended]
    # Short and long runs alternate; what has to follow from others comes after them.
    assert names[:5] == [
        *("ssprl_seed0", "swav_equal_epochs_seed0", "swav_equal_epochs_seed1"),
        *("swav_small_views_pace", "ssprl_small_views_sampled_pace"),
    ]
    assert all("equal_time" in name for name in names[8:])
    assert len(names) == len(set(names)) == 14
    # 6 x 0.35 / 0.1, / 0.15 and / 0.3; the paces are no result.
    epochs = [0, 6, 21, 14, 6, 7]
    assert sorted((r["method"], r["seed"], r["epochs"]) for r in results) == sorted(
        (row.title, seed, number)
        for row, number in zip(demo.ROWS, epochs, strict=True)
        for seed in (0, 1)
    )
    assert any("pace of SwAV (six small views): mAP" in line for line in lines)
    counts = [line[1:6] for line in lines if line.startswith("[")]
    assert counts == [f"{number:2}/14" for number in range(1, 15)]
    table = (work_dir / "table.md").read_text()
    assert cells(table)[5][:3] == ["SwAV (six small views), equal time", "14", "78"]
    head, first, *rows = (work_dir / "results.csv").read_text().splitlines()
    assert head == "method,seed,mAP,epochs,steps,step_seconds,seconds"
    assert first.startswith("SS-PRL (paper),0,0.2,6,222,0.35,")
    assert len(rows) == 11


def test_a_stopped_demo_goes_on_and_other_epochs_are_trained_anew(pretended, tmp_path, monkeypatch):
    def train():
        del pretended[:]
        demo.run_demo(tmp_path / "demo", num_seeds=1, num_jobs=1, log=lambda line: None)
        return [run.folder.name for run in pretended]

    assert len(train()) == 8
    assert train() == []
    for name in ("result.json", "measured.json"):
        (tmp_path / "demo" / "ssprl_seed0" / name).unlink()
    monkeypatch.setitem(STEP_SECONDS, "ssprl", 0.7)
    names = ["swav", "swav_small_views", "ssprl_small_views_sampled"]
    assert train() == ["ssprl_seed0", *(f"{name}_equal_time_seed0" for name in names)]


def test_a_failure_is_told_when_the_others_have_ended(pretended, tmp_path, monkeypatch):
    run_commands = Run.run_commands

    def fail(run, threads, gpus):
        if run.folder.name == "ssprl_seed0":
            raise RunFailedError("no space left")
        run_commands(run, threads, gpus)

    monkeypatch.setattr(Run, "run_commands", fail)
    with pytest.raises(RuntimeError, match="5 .*: no space left; .* same command"):
        demo.run_demo(tmp_path / "demo", num_seeds=1, num_jobs=1, log=lambda line: None)
    assert len(pretended) == 4


def test_a_run_is_a_training_of_the_config_as_it_stands(tmp_path, monkeypatch, on_cpu):
    sizes = {"num_train": 40, "num_val": 20, "size_px": 96}
    scenes = generate_scenes(tmp_path / "scenes", **sizes, progress=False)
    run = demo.plan_run(tmp_path, scenes, demo.SSPRL, 3, 1)

    def run_commands(run, threads, gpus):
        with own_default_scope():
            train_and_probe(run.folder)

    monkeypatch.setattr(Run, "run_commands", run_commands)
    values = run.work(1)
    # One batch of 32 in 40 images.
    assert (values["epochs"], values["steps"], values["seed"]) == (1, 1, 3)
    assert 0 < values["mAP"] < 1
    assert values["step_seconds"] > 0
    assert (run.folder / "epoch_1.pth").exists()
    assert (run.folder / "ssprl_resnet18_scenes_backbone.pth").exists()
    for path in demo._draw_pictures(run.folder, scenes):
        assert path.stat().st_size > 10_000


def test_a_folder_of_the_user_is_refused_and_left_as_it_was(tmp_path):
    photo = tmp_path / "scenes" / "photo.jpg"
    photo.parent.mkdir()
    photo.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="a folder of its own, but .* --work-dir"):
        demo.run_demo(tmp_path, num_seeds=1)
    assert list(tmp_path.iterdir()) == [photo.parent]
