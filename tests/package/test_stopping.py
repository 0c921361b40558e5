"""Signals around the moment from which on they are only noted, and which process is the first."""

import pytest

from mmssprl.stopping import Interrupted, Signal, is_first_process, signals


def test_a_signal_just_before_the_first_step_stops_the_training_and_does_not_end_it():
    with signals.watched():
        signals.receive(Signal.SIGTERM)  # its handler has not run yet
        timer = signals._timer
        signals.note()
        assert signals.number == Signal.SIGTERM
        assert timer is not None
        assert timer.finished.is_set(), "would end the process"
        signals.interrupt()
    with signals.watched():
        signals.note()
        assert signals.number == 0, "that was another training's"
        signals.interrupt()


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_the_first_process_of_any_launcher(monkeypatch, name):
    for each in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(each, raising=False)
    assert is_first_process()
    for rank in (0, 1):
        monkeypatch.setenv(name, str(rank))
        assert is_first_process() == (rank == 0)


def test_workers_that_the_signal_ended_as_well_do_not_hide_it():
    def lose():
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated.")

    def stop_and_lose():
        signals.receive(Signal.SIGTERM)  # its handler has not run yet
        lose()

    with pytest.raises(Interrupted, match="stopped by SIGTERM") as stop, signals.watched():
        stop_and_lose()
    assert stop.value.code == 143
    assert signals._timer is None, "would end the process"
    with pytest.raises(RuntimeError, match="killed by signal"), signals.watched():
        lose()
