import fcntl
import os
import pty
import re
import runpy
import shlex
import signal
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from helpers.package.checkout import ROOT
from helpers.saving.stopped_runs import assert_equal_runs, logged, write_pretraining

pytestmark = [pytest.mark.fault, pytest.mark.dist]

SAVED = 75
LONG = ("train_cfg.max_epochs=10000", "default_hooks.checkpoint.interval=-1")
WORKERS = ("train_dataloader.num_workers=1", "train_dataloader.persistent_workers=True")
TRAIN = (sys.executable, str(ROOT / "tools" / "train.py"))
TWO = ("bash", str(ROOT / "tools" / "dist_train.sh"))


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_pretraining(tmp_path_factory.mktemp("signals"))


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes that run in a folder: torch gives each one its own session."""
    return [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(folder)]


@pytest.fixture(autouse=True)
def ended(tmp_path):
    """End what a failed test has started."""
    yield
    for each in processes_in(tmp_path):
        each.kill()


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK")}
    more = {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    return {**kept, **more, "PYTHONPATH": str(ROOT)}


class Started:
    """A command in a new session that a terminal would signal as a whole."""

    def __init__(self, folder: Path, *command: str | Path) -> None:
        self.log = folder / "said.txt"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder,
                env=environment(),
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        end = time.monotonic() + 200
        while self.said().count(text) < times:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def second_rank(self) -> psutil.Process:
        return psutil.Process(self.process.pid).children()[1]

    def end(self) -> int:
        return self.process.wait(timeout=120)


STEP = "loss / ln K"


@pytest.fixture
def call(tmp_path, monkeypatch, on_cpu):
    """Call a script with arguments in this process, in ``tmp_path``."""

    def call(script, *words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LOCAL_RANK", "0")
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(sys, "argv", [script, *words])
        runpy.run_path(script, run_name="__main__")

    return call


@pytest.mark.parametrize(
    ("signal_name", "act"),
    [("SIGHUP", os.close), ("SIGINT", lambda screen: os.write(screen, b"\x03"))],
    ids=["closed", "Ctrl-C"],
)
def test_what_a_terminal_stops_resumes_by_the_printed_line(
    config, tmp_path, call, signal_name, act
):
    screen, terminal = pty.openpty()
    options = ("--cfg-options", "train_cfg.max_epochs=12", *WORKERS)
    words = [*TRAIN, str(config), "--work-dir", "a b", *options]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment(),
        **dict.fromkeys(("stdin", "stdout", "stderr"), terminal),
        start_new_session=True,
        preexec_fn=partial(fcntl.ioctl, terminal, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    shown = b""
    while shown.count(STEP.encode()) < 2:
        shown += os.read(screen, 10_000)
    act(screen)
    assert process.wait(timeout=120) == SAVED
    log = next(tmp_path.glob("a b/*/*.log")).read_text()
    assert "Traceback" not in log
    line = re.search(rf"stopped by {signal_name} after step \d+ of 60, .*; resume with: (.*)", log)
    assert shlex.split(line[1]) == [*words, "--resume"]
    call(*words[1:], "--resume")
    assert [line["step"] for line in logged(tmp_path / "a b")] == list(range(1, 61))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_first_step_ends_in_one_line(tmp_path, number, call, capsys):
    config = tmp_path / "signal.py"
    config.write_text(f"import os\nos.kill(os.getpid(), {number:d})\n")
    with pytest.raises(SystemExit) as ended:
        call(TRAIN[1], str(config))
    assert ended.value.code == 128 + number
    assert capsys.readouterr().err == f"train.py: stopped by {number.name}.\n"


@pytest.mark.slow
def test_two_ranks_that_stop_together_equal_a_run_that_never_did(config, tmp_path):
    options = ("--cfg-options", "train_dataloader.num_workers=1", "train_cfg.max_epochs=8")
    run = Started(tmp_path, *TWO, config, "2", "--work-dir", "cut", *options)
    run.wait_for(STEP, 2)
    run.second_rank().send_signal(signal.SIGTERM)  # only this one
    assert run.end() == SAVED, run.said()
    assert run.said().count("resume with: env PYTHON=") == 1
    assert len(logged(tmp_path / "cut")) < 16
    command = shlex.split(run.said().splitlines()[-1].partition("resume with: ")[2])
    again = Started(tmp_path, *command)
    assert again.end() == 0, again.said()
    whole = Started(tmp_path, *TWO, config, "2", "--work-dir", "whole", *options)
    assert whole.end() == 0, whole.said()
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_8.pth")


@pytest.mark.slow
def test_the_second_signal_ends_all_at_once(config, tmp_path):
    # The step never ends, because the second rank is stopped.
    run = Started(tmp_path, *TWO, config, "2", "--cfg-options", *LONG)
    run.wait_for(STEP)
    run.second_rank().suspend()
    run.process.send_signal(signal.SIGINT)
    run.wait_for("once more ends at once")
    time.sleep(2)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 128 + signal.SIGINT
    assert "Traceback" not in run.said()
    assert psutil.wait_procs(processes_in(tmp_path), timeout=30)[1] == []


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process_behind(config, tmp_path):
    options = ("--cfg-options", *LONG, *WORKERS)
    run = Started(tmp_path, *TWO, config, "2", *options)
    run.wait_for(STEP)
    assert len(processes_in(tmp_path)) >= 5  # launcher, ranks, workers
    run.process.kill()
    run.process.wait()
    assert psutil.wait_procs(processes_in(tmp_path), timeout=30)[1] == []
    assert "stopped by SIGTERM after step" in run.said()  # they have saved, too


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGSTOP, "process 0 (exit code 1): rank 0 waited 5 s for rank 1 in all_"),
        (signal.SIGKILL, "process 1 (exit code -9): Signal 9 (SIGKILL)"),
    ],
)
def test_a_rank_that_hangs_or_dies_ends_the_others_too(config, tmp_path, number, message):
    options = ("--cfg-options", *LONG, "env_cfg.dist_cfg.timeout=5")
    run = Started(tmp_path, *TWO, config, "2", *options)
    run.wait_for(STEP)
    run.second_rank().send_signal(number)
    assert run.end() == 1
    assert f"train.py: error: {message}" in run.said()
    assert "Traceback" not in run.said()
    assert processes_in(tmp_path) == []


@pytest.mark.slow
def test_a_signal_ends_ranks_within_a_minute_though_their_step_never_ends(config, tmp_path):
    run = Started(tmp_path, *TWO, config, "2", "--work-dir", "cut", "--cfg-options", *LONG)
    run.wait_for(STEP)
    run.second_rank().suspend()
    start = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM
    assert time.monotonic() - start < 60
    (line,) = (line for line in run.said().splitlines() if line.startswith("ended by SIGTERM"))
    found = re.fullmatch(
        "ended by SIGTERM: no step has ended for 45 s. .*cut has no checkpoint yet; start again "
        "with: (.*)",
        line,
    )
    assert shlex.split(found[1])[-1] == "--resume"
    assert processes_in(tmp_path) == []


@pytest.mark.slow
def test_under_torchrun_itself(config, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    words = (TRAIN[1], config, "--launcher", "pytorch", "--cfg-options", *LONG)
    run = Started(tmp_path, *torchrun, *words)
    run.wait_for(STEP)
    os.killpg(run.process.pid, signal.SIGINT)  # the ranks get it twice
    run.end()  # torchrun has its own exit code and error page
    (line,) = (line for line in run.said().splitlines() if line.startswith("stopped by SIGINT"))
    assert shlex.split(line.partition("resume with: ")[2])[:5] == list(torchrun)
