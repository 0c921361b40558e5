import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.package.checkout import ROOT

from mmssprl.system.processes import COMMAND, call_in_process, command_of_process, to_resume

SLOW = """
import os, time
def work():  # as slow as one that imports torch
    print(os.getpid(), flush=True)
    time.sleep(60)
"""
SCRIPT = """
import sys
from slow import work
from mmssprl.system.processes import call_in_process
try:
    call_in_process(work)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_value_and_errors_come_back():
    assert call_in_process(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call_in_process(divmod, 7, 0)


def test_ctrl_c_ends_both_at_once_without_a_traceback(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pid = int(process.stdout.readline())
    os.kill(pid, signal.SIGINT)  # first, so that it could say something
    time.sleep(0.5)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "")


def test_a_command_resumes_from_the_newest_checkpoint():
    for given in ("--overwrite", "--resume", "--resume=old.pth", "--resume old.pth"):
        for words in (f"train.py {given} --amp", f"train.py --amp {given}"):
            assert to_resume(words.split()) == ["train.py", "--amp", "--resume"], words


def test_the_command_is_the_one_that_was_typed(monkeypatch):
    for name in ("LOCAL_RANK", "WORLD_SIZE", COMMAND):
        monkeypatch.delenv(name, raising=False)
    assert command_of_process() == sys.orig_argv
    monkeypatch.setenv(COMMAND, r"bash tools/dist_train.sh a\ b.py 2 ")
    assert command_of_process() == ["bash", "tools/dist_train.sh", "a b.py", "2"]
