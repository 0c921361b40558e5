import io
import time

import pytest

from mmssprl.console import progress
from mmssprl.console.progress import at_work, watch


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def use(monkeypatch):
    """Return a function that replaces stderr."""

    def use(stream):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(progress, "_EVERY_S", 0.05)
        return stream

    return use


def test_lines_replace_the_bar_without_a_terminal(use):
    stream = use(io.StringIO())
    passed = [time.sleep(0.03) or item for item in watch(range(9), "reading")]
    assert passed == [*range(9)]
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 5
    assert lines[0] == "reading: 1 of 9 (about 0 s left), 0 s"
    assert [*watch(iter([1]), "reading", shown=False)] == [1]
    assert stream.getvalue().splitlines() == lines


def test_a_first_item_that_takes_long_has_no_estimate(use):
    stream = use(io.StringIO())
    slow = (time.sleep(0.07) or item for item in range(2))
    assert [*watch(slow, "reading", total=2)] == [0, 1]
    assert stream.getvalue().splitlines()[0] == "reading: 0 of 2, 0 s"


def test_work_of_unknown_length_shows_its_time_until_it_ends(use):
    stream = use(io.StringIO())
    words = iter(["step 1", *["step 2"] * 1000])
    with at_work(lambda: next(words)):
        time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["step 1 0 s", "step 2 0 s"]
    time.sleep(0.15)
    assert stream.getvalue().splitlines() == lines
    with pytest.raises(KeyError), at_work("failing"):
        raise KeyError


def test_a_terminal_has_one_line_that_goes_at_the_end(use):
    stream = use(Terminal())
    with at_work("fit\x1b[31mting"):
        time.sleep(1.2)
    text = stream.getvalue()
    assert text.startswith("\rfit")
    assert "[31m" not in text.replace("\\x1b[31m", "")
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text
