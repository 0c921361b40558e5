import os
import subprocess
import sys
import time

import psutil
import pytest
from helpers.package.checkout import ROOT

from mmssprl.system.stopping import PARENT

pytestmark = pytest.mark.fault
COMMAND = """
import sys
from pathlib import Path
from mmssprl.experiments.run import Run

child = "import mmssprl, os, time; print(os.getpid(), 'begins', flush=True); {}"
command = (sys.executable, "-c", child.format(sys.argv[1]))
Run(name="a", folder=Path("run"), commands=(command,)).work(1)
"""


def test_commands_end_with_their_parent(tmp_path):
    (tmp_path / "script.py").write_text(COMMAND)
    words = [sys.executable, "script.py", "import torch; time.sleep(60)"]
    parent = subprocess.Popen(words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    log = tmp_path / "run/run.log"
    while not (log.exists() and "begins" in log.read_text()):
        assert parent.poll() is None
        time.sleep(0.02)
    child = psutil.Process(int(log.read_text().split()[0]))
    parent.kill()
    parent.wait()
    child.wait(timeout=20)


def test_a_command_ends_if_its_parent_is_gone():
    parent = subprocess.Popen(["true"])
    parent.wait()
    words = [sys.executable, "-c", "import mmssprl, time; time.sleep(60)"]
    done = subprocess.run(words, env=os.environ | {PARENT: str(parent.pid)}, timeout=20)
    assert done.returncode == 1
