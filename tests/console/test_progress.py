import contextlib
import io
import os
import pty
import re
import time

import pytest

from mmssprl.console import live_line
from mmssprl.console.live_line import at_work, clear_live_line, rarer_s
from mmssprl.console.progress import watch


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(live_line, "_LEAST_S", 0.05)
    monkeypatch.setattr(live_line, "_QUIET_S", 0.0)


def use_terminal(monkeypatch):
    """Return a stream in the place of stderr that is a terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def test_lines_replace_the_bar_without_a_terminal(capsys):
    slow = (time.sleep(0.07) or item for item in range(4))
    assert [*watch(slow, "reading", total=4)] == [*range(4)]
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "reading: 0 of 4, 0 s"  # a slow first item gives no estimate
    assert 2 <= len(others) <= 5
    assert re.fullmatch(r"reading: [1-3] of 4, \d+(\.\d)?/s, about 1 s left, 0 s", others[-1])


def test_a_terminal_has_a_bar_with_the_rate(monkeypatch):
    terminal = use_terminal(monkeypatch)
    slow = (time.sleep(0.15) or item for item in range(8))
    assert [*watch(slow, "reading", total=8)] == [*range(8)]
    assert re.search(r"reading .*8/8\S* \d\.\d/s", terminal.getvalue())


def test_progress_that_is_not_shown_writes_nothing(capsys):
    assert [*watch(iter([1]), "reading", shown=False)] == [1]
    assert capsys.readouterr().err == ""


def test_lines_become_rarer():
    """Ten seconds at first, a tenth of the time later, five minutes at most."""
    assert [rarer_s(seconds, 9.0) for seconds in (0, 90, 600, 2400, 9000)] == [9, 9, 60, 240, 300]


def test_a_line_is_not_due_after_another_line(capsys):
    with at_work("step"):
        for _ in range(8):
            time.sleep(0.03)
            clear_live_line()  # as before each line of a log
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("logs", "shown"), [(False, True), (True, False)])
def test_a_line_of_work_that_logs_comes_after_twice_the_time(logs, shown, capsys, monkeypatch):
    monkeypatch.setattr(live_line, "rarer_s", lambda *_: 0.4)
    with at_work("training", logs=logs):
        time.sleep(0.6)
    assert bool(capsys.readouterr().err) == shown


def test_only_the_innermost_work_is_shown(capsys):
    with at_work("outer"), at_work("inner"):
        time.sleep(0.3)
    assert {line.split(",")[0] for line in capsys.readouterr().err.splitlines()} == {"inner"}


def test_work_of_unknown_length_shows_its_time_until_it_ends(capsys):
    words = iter(["step 1", *["step 2"] * 1000])
    with at_work(lambda: next(words)):
        time.sleep(0.2)
    assert capsys.readouterr().err.splitlines()[:2] == ["step 1, 0 s", "step 2, 0 s"]
    time.sleep(0.15)
    assert capsys.readouterr().err == ""


def test_work_that_fails_raises_its_error():
    with pytest.raises(KeyError), at_work("failing"):
        raise KeyError


def test_a_terminal_has_one_line_that_goes_at_the_end(monkeypatch):
    terminal = use_terminal(monkeypatch)
    with at_work("fit\x1b[31mting"):
        time.sleep(0.2)
    text = terminal.getvalue()
    assert text.startswith("\rfit")
    assert "[31m" not in text.replace("\\x1b[31m", "")
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text


def test_a_line_of_a_log_erases_the_live_line(monkeypatch):
    terminal = use_terminal(monkeypatch)
    with at_work("fitting"):
        time.sleep(0.2)
        before = terminal.getvalue()
        clear_live_line()
        assert terminal.getvalue()[len(before) :].startswith("\r\x1b[K")


def test_a_bar_is_not_erased_by_other_lines(monkeypatch):
    terminal = use_terminal(monkeypatch)
    for _ in watch([1], "reading"):
        before = terminal.getvalue()
        clear_live_line()
        assert terminal.getvalue() == before


def test_a_terminal_waits_for_a_line_that_is_on_its_way(monkeypatch):
    monkeypatch.setattr(live_line, "_QUIET_S", 60.0)
    terminal = use_terminal(monkeypatch)
    clear_live_line()
    with at_work("fitting"):
        time.sleep(0.2)
    assert "fitting" not in terminal.getvalue()


@at_work("fitting")
def fail_without_a_terminal(terminal):
    """Close the other side of a terminal, then raise KeyError."""
    time.sleep(0.2)
    os.close(terminal)
    time.sleep(0.2)
    raise KeyError


def test_a_terminal_that_is_closed_hides_no_error(monkeypatch):
    terminal, of_process = pty.openpty()
    stream = open(of_process, "w")  # noqa: SIM115  nothing can be flushed at its end
    monkeypatch.setattr("sys.stderr", stream)
    with pytest.raises(KeyError):
        fail_without_a_terminal(terminal)
    with contextlib.suppress(OSError):
        stream.close()
