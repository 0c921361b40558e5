"""The clock of two sides on one thread, and the ratio of their rounds."""

import types

import cv2
import pytest
import torch

from tools.dev.speed import gates
from tools.dev.speed.gates import interleave, ratio


def test_sides_take_turns_and_begin_warm(monkeypatch):
    now = types.SimpleNamespace(seconds=0.0)
    calls = []

    def side(name, seconds):
        def work():
            calls.append((name, torch.get_num_threads(), cv2.getNumThreads()))
            now.seconds += seconds

        return work

    monkeypatch.setattr(gates.time, "process_time", lambda: now.seconds)
    before = torch.get_num_threads(), cv2.getNumThreads()
    seconds = interleave({"a": side("a", 2.0), "b": side("b", 0.5)}, 3)
    assert "".join(name for name, *_ in calls) == "ab" + "ab" + "ba" + "ab"
    assert seconds == {"a": [2.0] * 3, "b": [0.5] * 3}
    assert {threads for _, *threads in calls for threads in threads} == {1}
    assert (torch.get_num_threads(), cv2.getNumThreads()) == before


def test_ratio_goes_round_by_round():
    # The ratio of the medians would be 3.
    assert ratio([2.0, 30.0, 3.0, 8.0, 1.0], [1.0, 10.0, 1.0, 1.0, 1.0]) == (3.0, 2.0, 3.0)
    assert ratio([6.0, 9.0], [2.0, 1.0]) == (6.0, 4.5, 7.5)
    assert ratio([6.0], [2.0]) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])
