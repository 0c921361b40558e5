import os
import select
import subprocess
import threading
import time
from multiprocessing import get_context

import pytest
from torch.utils.data import DataLoader

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


def test_what_the_signal_brings_about_does_not_hide_it():
    def lose():
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated.")

    def stop_and_lose():
        # This process hears of it a little later.
        threading.Timer(0.02, os.kill, [os.getpid(), Signal.SIGTERM]).start()
        lose()

    with pytest.raises(Interrupted, match="SIGTERM") as stop, signals.watched():
        stop_and_lose()
    assert stop.value.code == 143
    assert not signals._early, "would end the process"
    with pytest.raises(RuntimeError, match="is killed"), signals.watched():
        lose()


def test_a_loaders_worker_leaves_signals_to_its_parent_and_ends_when_that_says_so():
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
