"""Tools of the checkout, called as by a shell in another folder."""

import os
import subprocess
import sys

from helpers.package.checkout import ROOT

TOOLS = ROOT / "tools"


def call(*command, cwd, **env):
    """Run a tool outside the checkout; PYTHONPATH leads to the toy of these tests alone."""
    base = {key: value for key, value in os.environ.items() if key not in ("RANK", "LOCAL_RANK")}
    base |= {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "tests")}
    base |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    pipes = {"capture_output": True, "text": True, "timeout": 180}
    return subprocess.run([*map(str, command)], cwd=cwd, env=base | env, **pipes)
