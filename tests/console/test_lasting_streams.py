import os
import subprocess
import sys

import pytest

from mmssprl.console.quiet import lasting_streams

PRINTS = """
from mmssprl.console.quiet import lasting_streams
with lasting_streams():
    print("a" * 10_000)
    print("b", flush=True)
    open("file.txt", "w").write("kept")
    print("c", flush=True)
"""


def run(folder, words, shell):
    """Run Python as a shell would, with what follows behind the command."""
    command = ["bash", "-c", f'"$0" "$@" {shell}; exit ${{PIPESTATUS[0]}}', sys.executable, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("shell", ["| true", ">/dev/full", ">&-", ">/dev/full 2>&1"])
def test_what_runs_goes_on_and_its_exit_code_stays(shell, tmp_path):
    done = run(tmp_path, ("-c", PRINTS), shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "file.txt").read_text() == "kept"
    done = run(tmp_path, ("-m", "mmssprl", "report", "nothing"), f"2>&1 {shell}")
    assert done.returncode == 2


def test_the_streams_come_back(capsys):
    before = sys.stdout, sys.stderr
    with lasting_streams():
        print("told", os.fsdecode(b"\xff"))
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out.startswith("told ")
