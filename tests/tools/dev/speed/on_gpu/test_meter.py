"""The limit of time."""

import time
from contextlib import suppress

import pytest

from tools.dev.speed.on_gpu.meter import OutOfTimeError, time_limit


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
