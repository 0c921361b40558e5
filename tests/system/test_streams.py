import os
import subprocess
import sys

import pytest

from mmssprl.system.streams import guarded_streams

PRINTS = """
from mmssprl.system.streams import guarded_streams
with guarded_streams() as stdout:
    stdout.is_needed = {needed}
    print("a" * 10_000)
    print("b", flush=True)
    open("file.txt", "w").write("kept")
    print("c", flush=True)
"""


def run(folder, words, *, shell=""):
    """Run Python as a shell would, with what follows behind the command."""
    command = f'exec "$0" "$@" {shell}'
    return subprocess.run(
        ["bash", "-c", command, sys.executable, *words], cwd=folder, capture_output=True, text=True
    )


@pytest.fixture
def unread():
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("words", [("doctor",), ("--help",)])
def test_a_command_ends_where_nobody_reads_or_the_disk_is_full(words, unread, tmp_path):
    command = [sys.executable, "-m", "mmssprl", *words]
    done = subprocess.run(command, stdout=unread, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")
    done = run(tmp_path, ("-m", "mmssprl", *words), shell=">/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr


@pytest.mark.parametrize("shell", [">/dev/full", ">&-", ">/dev/full 2>&1", "<&- >&- 2>&-"])
def test_what_does_not_need_it_goes_on(shell, tmp_path):
    done = run(tmp_path, ("-c", PRINTS.format(needed=False)), shell=shell)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == (shell == ">/dev/full")
    assert (tmp_path / "file.txt").read_text() == "kept"


def test_a_closed_one_gives_its_number_to_no_file(tmp_path):
    code = PRINTS.format(needed=True) + "    import os; os.system('echo d')\n"
    done = run(tmp_path, ("-c", code), shell=">&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "file.txt").read_text() == "kept"


def test_the_streams_come_back(capsys):
    before = sys.stdout, sys.stderr
    with guarded_streams():
        print("told")
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out == "told\n"
