import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from pycocotools.coco import COCO

from mmssprl.experiments.run import Run, RunFailedError, run_module
from mmssprl.runs.devices import reading_processes
from mmssprl.system import environment

MEASURE = "open(\"{0}/measured.json\", 'w').write('{{\"mAP\": 0.5}}'); print('measured')"


@pytest.fixture
def make(tmp_path):
    """Return a run of Python scripts; what the last one writes is measured."""

    def make(*scripts):
        folder = tmp_path / "run"
        each = (*scripts, MEASURE.format(folder))
        commands = tuple((sys.executable, "-S", "-c", script) for script in each)
        return Run(name="a run", folder=folder, commands=commands)

    return make


@pytest.mark.parametrize("gpus", ["1,2", ""])
def test_commands_run_in_order_on_their_devices(make, monkeypatch, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all of them")
    see = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['CUDA_VISIBLE_DEVICES'])"
    run = make("print('training')", see)
    assert run.work(3, gpus) == {"mAP": 0.5}
    assert run.log_file.read_text() == f"training\n3 {gpus or 'all of them'}\nmeasured\n"


def test_reading_processes_of_a_run_fit_its_share_of_the_cores(make, monkeypatch):
    monkeypatch.setattr(environment, "usable_cores", lambda: 16)
    alone = [reading_processes(num_devices) for num_devices in (1, 4)]
    assert alone == [8, 3]

    shares = {}
    for threads in (1, 4, 12):
        run = make("import os; print(os.environ['MMSSPRL_CORES'])")
        (run.folder / "measured.json").unlink(missing_ok=True)
        run.work(threads)
        monkeypatch.setenv("MMSSPRL_CORES", run.log_file.read_text().split()[-2])
        shares[threads] = reading_processes(1)
    assert shares == {1: 1, 4: 3, 12: 8}


def test_what_was_measured_is_not_measured_again(make):
    """Even if no result was kept of it."""
    run = make()
    for _ in range(2):
        assert run.work(1) == {"mAP": 0.5}
        assert run.is_complete
    assert run.log_file.read_text().count("measured") == 1


def test_a_run_with_other_inputs_keeps_the_old_folder(make):
    run = make()
    for seed in range(3):
        replace(run, inputs={"seed": seed}).work(1)
        (run.folder / "epoch_9.pth").write_text(f"weights of seed {seed}")
    old = [run.folder.with_name(f"run.replaced-{n}") for n in (1, 2)]
    kept = [(folder / "epoch_9.pth").read_text() for folder in (*old, run.folder)]
    assert kept == [f"weights of seed {seed}" for seed in range(3)]
    assert run.log_file.read_text() == "measured\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; print('first'); sys.exit('the reason\\n\\n')", "the reason (exit code 1"),
        ("import os; os.kill(os.getpid(), 9)", "no output (exit code -9"),
        ("import sys; print('x' * 500); sys.exit(1)", f"{'x' * 200} (exit code 1"),
    ],
)
def test_a_failure_is_the_last_line_of_this_attempt(script, reason, make):
    run = make(script)
    run.folder.mkdir()
    run.log_file.write_text("an earlier attempt\n")
    with pytest.raises(RunFailedError) as caught:
        run.work(1)
    assert str(caught.value) == f"{reason}, {run.log_file})"
    assert run.log_file.read_text().startswith("an earlier attempt\n")
    assert not run.measured_file.exists()  # the next command does not follow


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("epoch 1.00/6\nepoch 1.20/6  99 images/s  36 s left, 108 s\n", "36 s left"),
        ("epoch 1.00/6  loss 0.8  5 s left\n", "5 s left"),
        ("features: 3 of 9, 2.0/s, about 3 s left, 9 s\n", "about 3 s left"),
    ],
)
def test_the_progress_of_a_run_has_no_time_of_its_own_live_line(written, shown, make):
    run = make()
    run.folder.mkdir()
    run.log_file.write_text(written)
    assert run.last_line().endswith(shown)


def test_shell_line_is_a_line_for_a_shell_that_stops_at_a_failure(make):
    run = make("print('one  \"two\"; $PATH & more')", "raise SystemExit(3)", "print('third')")
    line = run.shell_line()
    assert [word for word in shlex.split(line) if word == "&&"] == ["&&"] * 3
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, 'one  "two"; $PATH & more\n')


def test_what_packages_print_is_no_progress(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run", "folder"])
    run_module(lambda folder: print("epoch 1") or COCO().createIndex())
    assert capsys.readouterr().out == "epoch 1\n"
