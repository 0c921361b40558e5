import os
import select
import subprocess
import threading
import time
from multiprocessing import get_context

import pytest
from torch.utils.data import DataLoader

from mmssprl.system.stopping import Interrupted, Signal, signals


def test_a_signal_just_before_the_first_step_stops_the_training_and_does_not_end_it():
    with signals.watched():
        signals.receive(Signal.SIGTERM)  # its handler has not run yet
        signals.note()
        assert (signals.number, signals._early) == (Signal.SIGTERM, 0), "would end the process"
        signals.interrupt()
    with signals.watched():
        signals.note()
        assert signals.number == 0, "that was another training's"
        signals.interrupt()


def test_the_shells_of_a_closed_terminal_do_not_end_the_save(monkeypatch):
    ended = []
    monkeypatch.setattr(signals, "_end", ended.append)
    with signals.watched():
        signals.note()
        for number in (Signal.SIGHUP, Signal.SIGHUP, Signal.SIGTERM):
            signals.receive(number)
            signals._time -= 10
        assert signals.number == Signal.SIGHUP
        signals.interrupt()
    assert ended == [Signal.SIGTERM]


def test_what_the_signal_brings_about_does_not_hide_it():
    def lose():
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated.")

    def stop_and_lose():
        # The thread that reads signals hears of it a little later.
        threading.Timer(0.02, signals.receive, [Signal.SIGTERM]).start()
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


def begin_and_wait(has_begun):
    has_begun.set()
    time.sleep(60)


def test_sigterm_ends_a_forked_process_where_nothing_tells_who_has_sent_it(monkeypatch):
    monkeypatch.delattr("signal.sigtimedwait", raising=False)  # macOS has none
    with signals.watched():
        has_begun = get_context("fork").Event()
        process = get_context("fork").Process(target=begin_and_wait, args=(has_begun,))
        process.start()
        assert has_begun.wait(20)
        process.terminate()
        process.join(timeout=10)
    assert process.exitcode == -Signal.SIGTERM


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
