import io
import time

import pytest

from mmssprl.console import progress
from mmssprl.console.progress import at_work, watch


def written(monkeypatch):
    """Return what is written to stderr from now on, which is no terminal."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "_EVERY_S", 0.05)
    return stream


def test_lines_tell_where_no_terminal_shows_a_bar(monkeypatch):
    stream = written(monkeypatch)
    passed = [time.sleep(0.03) or item for item in watch(range(9), "reading")]
    assert passed == [*range(9)]
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 5
    assert lines[0].startswith("reading: 2 of 9, about ")
    assert [*watch(iter([1]), "reading", shown=False)] == [1]
    assert stream.getvalue().splitlines() == lines
    slow = (time.sleep(0.07) or item for item in range(2))
    assert [*watch(slow, "first", total=2)] == [0, 1]
    assert "first: 0 of 2\n" in stream.getvalue()  # no estimate


def test_work_of_unknown_length_tells_its_time_until_it_ends(monkeypatch):
    stream = written(monkeypatch)
    words = iter(["step 1", *["step \x1b[31m2"] * 1000])
    with at_work(lambda: next(words)):
        time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["step 1 0 s", "step \\x1b[31m2 0 s"]
    with pytest.raises(KeyError), at_work("failing"):
        raise KeyError
    time.sleep(0.15)
    assert stream.getvalue().splitlines() == lines
