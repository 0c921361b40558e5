import io
import re
import time

import pytest

from mmssprl.console import progress
from mmssprl.console.progress import at_work, watch


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(progress, "_EVERY_S", 0.05)


def test_lines_replace_the_bar_without_a_terminal(capsys):
    slow = (time.sleep(0.07) or item for item in range(4))
    assert [*watch(slow, "reading", total=4)] == [*range(4)]
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "reading: 0 of 4, 0 s"  # a slow first item gives no estimate
    assert 2 <= len(others) <= 5
    assert re.fullmatch(r"reading: [1-3] of 4 \(about \d s left\), \d s", others[-1])


def test_progress_that_is_not_shown_writes_nothing(capsys):
    assert [*watch(iter([1]), "reading", shown=False)] == [1]
    assert capsys.readouterr().err == ""


def test_work_of_unknown_length_shows_its_time_until_it_ends(capsys):
    words = iter(["step 1", *["step 2"] * 1000])
    with at_work(lambda: next(words)):
        time.sleep(0.2)
    assert capsys.readouterr().err.splitlines()[:2] == ["step 1 0 s", "step 2 0 s"]
    time.sleep(0.15)
    assert capsys.readouterr().err == ""


def test_work_that_fails_raises_its_error():
    with pytest.raises(KeyError), at_work("failing"):
        raise KeyError


def test_a_terminal_has_one_line_that_goes_at_the_end(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", stream)
    with at_work("fit\x1b[31mting"):
        time.sleep(1.2)
    text = stream.getvalue()
    assert text.startswith("\rfit")
    assert "[31m" not in text.replace("\\x1b[31m", "")
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text
