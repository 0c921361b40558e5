import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.datasets.image_folders import folder
from helpers.timing.profiles import PROFILE
from mmengine.device import get_device

from mmssprl import timing as profiling
from mmssprl.cli import main
from mmssprl.config.shipped import shipped
from mmssprl.timing import format_profile

CONFIG = str(shipped("configs/ssprl/ssprl_resnet18_scenes.py"))
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def images(tmp_path):
    return str(folder(tmp_path / "images", 6))


@pytest.fixture
def asked(monkeypatch):
    """What the command asks for; the answer is PROFILE."""
    calls = []

    def measure(config, **options):
        calls.append({"config": config, **options})
        return PROFILE

    monkeypatch.setattr(profiling, "profile_training", measure)
    return calls


def test_measures_prints_and_writes(images, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["profile", CONFIG, "--data", images, "--steps", "2", "--batch-size", "3"]
    assert main([*words, "--out", "a/numbers.json"]) == 0
    text = capsys.readouterr().out
    assert "% of step" in text
    assert "then 2 to measure" in text
    assert "a/numbers.json" in text
    assert {path.name for path in tmp_path.iterdir()} == {"images", "a"}
    numbers = json.loads(Path("a/numbers.json").read_text())
    steps = [row for row in numbers["rows"] if row["part"] == "step"]
    assert len(steps) == 9
    if get_device() == "cpu":
        assert sum(row["ms_per_step"] for row in steps) == pytest.approx(numbers["free_step_ms"])
    else:  # measured once more, without the waits between phases
        assert numbers["free_step_ms"] > 0
    assert numbers["images_per_s"] == pytest.approx(3000 / numbers["free_step_ms"])
    assert numbers["num_steps"] == 2
    assert numbers["setting"]["num_images"] == 6


def test_options_reach_the_measurement(asked, capsys):
    assert main(["profile", "a.py"]) == 0
    text = capsys.readouterr().out
    assert format_profile(PROFILE) in text
    # 20 epochs x 250 steps x 203 ms
    assert "\nforecast: 20 epochs, about 17 min on this CPU" in text
    log = asked[0].pop("log")
    log("a line")
    assert capsys.readouterr().out == "a line\n"
    assert asked[0]["steps"] == 30
    words = ["--data", "d", "--steps", "7", "--batch-size", "5", "--amp", "--compile"]
    words += ["--cfg-options", "a.b=3", "c=(0.5,1.0)", "d=x"]
    main(["profile", "a.py", *words])
    del asked[1]["log"]
    numbers = {"steps": 7, "batch_size": 5, "amp": True, "compile": True}
    options = {"a.b": 3, "c": (0.5, 1.0), "d": "x"}
    where = {"config": "a.py", "data": "d", "launcher": "none"}
    assert asked[1] == {**where, **numbers, "cfg_options": options}


@pytest.mark.parametrize("out", ["numbers.txt", "old.json"])
def test_mistakes_are_told_before_anything_is_measured(asked, out, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text("old")
    assert main(["profile", "a.py", "--out", out]) == 2
    assert out in capsys.readouterr().err
    assert asked == []
    assert Path("old.json").read_text() == "old"


@pytest.mark.slow
@pytest.mark.dist
def test_two_processes(images, tmp_path):
    out = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    command += ["-m", "mmssprl", "profile", CONFIG, "--data", images, "--launcher", "pytorch"]
    command += ["--steps", "6", "--batch-size", "2", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("% of step") == 1
    assert "one process" not in done.stdout
    numbers = json.loads(out.read_text())
    assert numbers["setting"]["num_processes"] == 2
    assert numbers["num_steps"] == 6
    # Sinkhorn's collectives are always there; what the all-reduce adds is noise at this size.
    assert numbers["step_ms"]["communication"] > 0
    assert min(numbers["step_ms"].values()) >= 0
    assert numbers["images_per_s"] == pytest.approx(4000 / numbers["free_step_ms"])
