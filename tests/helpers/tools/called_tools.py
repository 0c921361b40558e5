"""Tools of the checkout, called as by a shell in another folder."""

import os
import subprocess
import sys
from pathlib import Path

from helpers.package.checkout import ROOT

TOOLS = ROOT / "tools"


def call(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    """Run a tool outside the checkout; PYTHONPATH leads to the toy of these tests alone."""
    base = {key: value for key, value in os.environ.items() if key not in ("RANK", "LOCAL_RANK")}
    base |= {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "tests"),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=base | env,
        capture_output=True,
        text=True,
        timeout=180,
    )
