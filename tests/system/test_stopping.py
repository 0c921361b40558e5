import ctypes
import os
import select
import signal
import subprocess
import threading
import time
from multiprocessing import get_context

import pytest
from torch.utils.data import DataLoader

from mmssprl.system import stopping
from mmssprl.system.stopping import Interrupted, Signal, signals


def test_the_shells_of_a_closed_terminal_do_not_end_the_save(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with signals.watched():
        signals.note()
        for number in (Signal.SIGHUP, Signal.SIGHUP, Signal.SIGTERM):
            signals._receive(number, None)
            signals._time -= 10
        assert signals.number == Signal.SIGHUP
        signals.interrupt()
    assert ended == [128 + Signal.SIGTERM]


def test_two_signals_at_once_are_one(monkeypatch):
    """The second comes while the first is being noted, as from a terminal and a launcher."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    clock = time.monotonic

    def interrupted_clock():
        monkeypatch.setattr(time, "monotonic", clock)
        signals._receive(Signal.SIGTERM, None)
        return clock()

    with signals.watched():
        signals.note()
        monkeypatch.setattr(time, "monotonic", interrupted_clock)
        signals._receive(Signal.SIGINT, None)
        assert signals.number
        signals.interrupt()
    assert ended == []


def lose():
    raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated.")


def test_an_error_that_a_signal_causes_does_not_hide_it():
    def stop_and_lose():
        # This process hears of it a little later.
        threading.Timer(0.02, os.kill, [os.getpid(), Signal.SIGTERM]).start()
        lose()

    with pytest.raises(Interrupted, match="SIGTERM") as stop, signals.watched():
        stop_and_lose()
    assert stop.value.code == 143
    assert not signals._early, "would end the process"


def test_an_error_without_a_signal_stays():
    with pytest.raises(RuntimeError, match="is killed"), signals.watched():
        lose()


def test_a_loaders_worker_obeys_its_parent_alone():
    with signals.watched():
        batches = iter(DataLoader(range(20), num_workers=1, persistent_workers=True))
        assert next(batches) == 0
        (worker,) = batches._workers
        for number in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP", "SIGXCPU"):
            # By another process than its parent.
            subprocess.run(["kill", f"-{Signal[number]:d}", str(worker.pid)], check=True)
        assert [int(batch) for batch in batches] == list(range(1, 20))
        worker.terminate()  # as multiprocessing does at the end of a process
        worker.join(timeout=10)
        assert worker.exitcode == 0


def test_a_forked_process_ends_soon_after_its_parent():
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            with signals.watched():
                get_context("fork").Process(target=time.sleep, args=(60,)).start()
                os._exit(0)  # at once, as by a second signal
        finally:
            os._exit(1)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == 0
    assert select.select([reading], [], [], 20)[0], "it lives, for it holds the pipe's other end"
    os.close(reading)


def stuck_in_python():
    time.sleep(60)


def stuck_in_c():
    """Lock a mutex twice: no handler of Python runs meanwhile."""
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)


def in_steps():
    for _ in range(8):
        time.sleep(0.4)
        signals.progress()


def saving():
    while not signals.number:
        time.sleep(0.01)
    signals.saves()
    time.sleep(3)


@pytest.fixture
def end_by_sigterm(tmp_path, monkeypatch):
    """Fork a process that does something, send it SIGTERM, and return its exit code and errors."""
    monkeypatch.setattr(stopping, "STUCK_S", 1.0)
    errors = tmp_path / "errors"

    def act_in_child(act, writing):
        with errors.open("w") as file:
            os.dup2(file.fileno(), 2)
        with signals.watched():
            signals.note(advice=lambda: "Resume so.")
            os.write(writing, b"ready")
            act()
            signals.interrupt()

    def end_by_sigterm(act):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                act_in_child(act, writing)
                os._exit(0)
            finally:
                os._exit(99)
        assert os.read(reading, 5) == b"ready"
        os.kill(child, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(writing)
        os.close(reading)
        return code, errors.read_text()

    return end_by_sigterm


@pytest.mark.parametrize("act", [stuck_in_python, stuck_in_c])
def test_a_process_without_a_step_ends_after_a_signal(end_by_sigterm, act):
    code, said = end_by_sigterm(act)
    assert code == 128 + signal.SIGTERM
    assert said.endswith("ended by SIGTERM: no step has ended for 1 s. Resume so.\n")


@pytest.mark.parametrize("act", [in_steps, saving])
def test_a_process_that_goes_on_is_left_alone(end_by_sigterm, act):
    code, said = end_by_sigterm(act)
    assert code == 0
    assert "no step" not in said


def test_its_children_end_with_a_process_that_is_stuck(end_by_sigterm):
    reading, writing = os.pipe()

    def suspend():
        os.kill(os.getpid(), signal.SIGSTOP)  # it does not see that its parent is gone

    def with_a_child():
        get_context("fork").Process(target=suspend).start()
        time.sleep(60)

    end_by_sigterm(with_a_child)
    os.close(writing)
    assert select.select([reading], [], [], 20)[0], "it lives, for it holds the pipe's other end"
    os.close(reading)
