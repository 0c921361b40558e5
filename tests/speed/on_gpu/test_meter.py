"""Turns, limits of memory and limits of time."""

import time
from contextlib import suppress

import pytest
from fake_gpu import FakeMeter

from tools.speed.on_gpu.meter import OutOfTimeError, alternate, time_limit


def test_sides_take_turns():
    meter, order = FakeMeter(), []
    sides = {name: lambda name=name: order.append(name) for name in "AB"}
    seconds = alternate(meter, sides, rounds=3, repeats=2)
    assert "".join(order) == "AABB" + "BBAA" + "AABB"
    assert {name: len(values) for name, values in seconds.items()} == {"A": 3, "B": 3}


def test_a_part_is_stopped_even_if_it_catches_exceptions():
    start = time.monotonic()

    def stubborn() -> None:
        with time_limit(0.1), suppress(Exception):
            time.sleep(5)

    with pytest.raises(OutOfTimeError, match="stopped after 0 s"):
        stubborn()
    assert time.monotonic() - start < 3
    with time_limit(0.1):
        pass
    time.sleep(0.2)  # the alarm is off
