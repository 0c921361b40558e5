import os
import subprocess
import sys
import time

import psutil
import pytest
from helpers.package.checkout import ROOT

from mmssprl.system.stopping import EXPERIMENT_VARIABLE

pytestmark = pytest.mark.fault
RUN = """
import os
import time
from mmssprl.experiments.run import run_module

def wait(folder):
    print(os.getpid(), flush=True)
    time.sleep(60)

run_module(wait)
"""
EXPERIMENT = f"""
import sys
from pathlib import Path
from mmssprl.experiments.run import Run

command = (sys.executable, "-c", {RUN!r}, "run")
Run(name="a", folder=Path("run"), commands=(command,)).work(1)
"""


def test_runs_end_with_their_experiment(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", EXPERIMENT], cwd=tmp_path, env=environment)
    log = tmp_path / "run/run.log"
    while not (log.exists() and log.read_text().endswith("\n")):
        assert parent.poll() is None
        time.sleep(0.02)
    child = psutil.Process(int(log.read_text()))
    parent.kill()
    parent.wait()
    child.wait(timeout=20)


def test_a_run_ends_if_its_experiment_is_gone():
    parent = subprocess.Popen(["true"])
    parent.wait()
    words = [sys.executable, "-c", RUN, "run"]
    done = subprocess.run(
        words, env=os.environ | {EXPERIMENT_VARIABLE: str(parent.pid)}, timeout=60
    )
    assert done.returncode == 1
