import os
import re
import signal
import subprocess
import sys
import time

import pytest
from helpers.engine.toy_run import write_config
from helpers.tools.called_tools import ROOT, TOOLS, call

from mmssprl.errors import UserRuntimeError
from mmssprl.system import processes


@pytest.mark.dist
def test_an_error_of_all_processes_is_printed_once(tmp_path):
    config = write_config(tmp_path, 'load_from = "gone.pth"\n')
    done = call("bash", TOOLS / "dist_train.sh", config.name, "2", cwd=tmp_path)
    assert done.returncode == 1
    message = r"train.py: error: process [01] \(exit code 1\): toy.py: load_from.*gone.pth.*\n"
    assert re.fullmatch(message, done.stderr)


REPORT = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from mmssprl.errors import UserValueError
from mmssprl.system.processes import report
rank = int(os.environ["RANK"])
"""
THE_SECOND_FIRST = """
report(UserValueError("x must be 1.") if rank else RuntimeError("the other has gone."))
sys.exit(1)
"""
A_BUG = """
try:
    1 / 0
except Exception as error:
    report(error)
    raise
"""
ABORTS_AFTER_THE_FIRST = """
from contextlib import suppress
pipe = __file__ + ".pipe"
with suppress(FileExistsError):
    os.mkfifo(pipe)
with open(pipe, "r" if rank else "w") as file:  # waits for the other
    if rank == 0:
        os._exit(75)
    file.read()  # until the first has ended
os.abort()
"""


@pytest.mark.dist
@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        (THE_SECOND_FIRST, 2, r"^process 1 \(exit code 1\): x must be 1\.$"),
        (A_BUG, 1, r"process 0 (.|\n)*ZeroDivisionError: division"),
        (ABORTS_AFTER_THE_FIRST, 2, "^75$"),  # all ranks have saved
    ],
    ids=["two errors", "a bug", "saved"],
)
def test_processes_end_cleanly_with_the_first_error(text, number, message, tmp_path):
    (tmp_path / "script.py").write_text(REPORT + text)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    options = ["--standalone", f"--nproc_per_node={number}", str(tmp_path / "script.py")]
    with pytest.raises((UserRuntimeError, SystemExit), match=message):
        processes.run_processes(options)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert processes.COMMAND not in os.environ


@pytest.mark.dist
def test_a_signal_ends_all_processes_without_a_traceback(tmp_path):
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import pathlib, time; pathlib.Path('started').touch(); time.sleep(60)")
    launch = subprocess.Popen(
        [sys.executable, TOOLS / "launch.py", "--standalone", "--nproc_per_node=1", sleeper],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "started").exists():
        assert launch.poll() is None
        time.sleep(0.1)
    launch.send_signal(signal.SIGTERM)
    _, said = launch.communicate(timeout=60)
    assert launch.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in said
