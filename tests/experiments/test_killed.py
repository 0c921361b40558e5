import os
import subprocess
import sys
import time

import psutil
import pytest
from helpers.package.checkout import ROOT

from mmssprl.system.stopping import PARENT_VARIABLE

pytestmark = pytest.mark.fault
SCRIPT = """
import sys
from pathlib import Path
from mmssprl.experiments.run import Run

child = "import mmssprl, os, time; print(os.getpid(), flush=True); time.sleep(60)"
Run(name="a", folder=Path("run"), commands=((sys.executable, "-c", child),)).work(1)
"""


def test_commands_end_with_their_parent(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment)
    log = tmp_path / "run/run.log"
    while not (log.exists() and log.read_text().endswith("\n")):
        assert parent.poll() is None
        time.sleep(0.02)
    child = psutil.Process(int(log.read_text()))
    parent.kill()
    parent.wait()
    child.wait(timeout=20)


def test_a_command_ends_if_its_parent_is_gone():
    parent = subprocess.Popen(["true"])
    parent.wait()
    words = [sys.executable, "-c", "import mmssprl, time; time.sleep(60)"]
    done = subprocess.run(words, env=os.environ | {PARENT_VARIABLE: str(parent.pid)}, timeout=20)
    assert done.returncode == 1
