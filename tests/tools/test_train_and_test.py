import json
import os
import runpy
import sys
from pathlib import Path

import pytest
import torch
from helpers.engine.toy_run import write_config
from helpers.tools.called_tools import TOOLS, call

SCRIPTS = sorted(TOOLS.glob("*_*.sh"))


def report(work_dir, rank):
    return json.loads((work_dir / f"rank{rank}.json").read_text())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_usage_of_the_scripts(script, tmp_path):
    assert len(SCRIPTS) == 4
    asked = call("bash", script, "--help", cwd=tmp_path)
    assert asked.returncode == 0
    assert f"usage: bash tools/{script.name} " in asked.stdout
    assert "source" not in asked.stdout
    for args in ([], ["one"]):
        bare = call("bash", script, *args, cwd=tmp_path)
        assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", asked.stdout)


@pytest.mark.dist
def test_two_cpu_processes_train_together(tmp_path):
    config = write_config(tmp_path, sync=True)
    done = call("bash", TOOLS / "dist_train.sh", config.name, "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("SyncBatchNorm has no CPU kernel") == 1
    first, second = (report(tmp_path / "work_dirs" / "toy", rank) for rank in (0, 1))
    assert first == second, "the ranks must have averaged their gradients"
    assert (first["world_size"], first["iters"]) == (2, 2), "8 samples, 2 a step and rank"
    assert (first["wrapper"], first["norm"]) == ("CPUDistributedDataParallel", "_BatchNormXd")
    assert first["weight"] != 0


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Run tools/<name>.py in this process, in ``tmp_path``, with the toy config there."""
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("LOCAL_RANK", "0")

    def main(name, *args):
        monkeypatch.setattr(sys, "argv", [name, *args])
        runpy.run_path(str(TOOLS / name), run_name="__main__")

    return main


def gradient_descent(epochs):
    """The toy run in plain Python: pairs of x = 0..7, (w x + b - 3 x)^2, lr 0.01, from zero."""
    weight = bias = 0.0
    for first in [0, 2, 4, 6] * epochs:
        errors = {x: weight * x + bias - 3 * x for x in (first, first + 1)}
        weight -= 0.01 * sum(error * x for x, error in errors.items())
        bias -= 0.01 * sum(errors.values())
    return weight, bias


def check_against_gradient_descent(report, epochs):
    assert report["iters"] == 4 * epochs
    found = (report["weight"], report["bias"])
    assert found == pytest.approx(gradient_descent(epochs), rel=1e-4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the wrapper is another")
def test_one_launched_process_trains_like_an_ordinary_one(tool, tmp_path, monkeypatch):
    def gloo_threads():
        names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        return names.count("pt_gloo_runloop")

    before = gloo_threads()
    monkeypatch.setattr("mmssprl.engine.launch.get_device", lambda: "cpu")
    of_torchrun = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in of_torchrun.items():
        monkeypatch.setenv(name, value)
    tool("train.py", "toy.py", "--work-dir", "w", "--launcher", "pytorch")
    launched = report(tmp_path / "w", 0)
    assert (launched["world_size"], launched["wrapper"]) == (1, "CPUDistributedDataParallel")
    check_against_gradient_descent(launched, epochs=1)
    assert not torch.distributed.is_initialized()
    assert gloo_threads() <= before, "one can abort the process when Python shuts down"


def test_a_toy_run_from_training_to_test(tool, tmp_path, monkeypatch, capsys):
    tool("train.py", "toy.py", "--work-dir", "w")
    check_against_gradient_descent(report(tmp_path / "w", 0), epochs=1)
    with pytest.raises(SystemExit, match=r"^train\.py: error: work_dir .* resume"):
        tool("train.py", "toy.py", "--work-dir", "w")
    longer = ("--resume", "--cfg-options", "train_cfg.max_epochs=2")
    tool("train.py", "toy.py", "--work-dir", "w", *longer)
    check_against_gradient_descent(report(tmp_path / "w", 0), epochs=2)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "w").rglob("*")}
    capsys.readouterr()
    for rank, told in (("0", "w/epoch_2.pth"), ("1", "")):  # finished: only rank 0 says so
        monkeypatch.setenv("RANK", rank)
        tool("train.py", "toy.py", "--work-dir", "w", *longer)
        out = capsys.readouterr().out
        assert told in out if told else out == ""
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "w").rglob("*")} == files
    monkeypatch.delenv("RANK")

    tool("test.py", "toy.py", "w/epoch_1.pth", "--work-dir", "tested")
    weight, bias = gradient_descent(epochs=1)
    metric = json.loads((tmp_path / "tested" / "metric.json").read_text())
    assert metric["total"] == pytest.approx(28 * weight + 8 * bias, rel=1e-4)


@pytest.mark.parametrize("flag", ["--local_rank", "--local-rank"])
def test_local_rank_of_old_launchers_reaches_the_environment(tool, monkeypatch, flag):
    monkeypatch.delenv("LOCAL_RANK")
    for rank in ("3", "5"):
        with pytest.raises(SystemExit, match="config"):
            tool("train.py", "no.py", flag, rank)
        assert os.environ["LOCAL_RANK"] == "3", "what is set wins"
