"""Test a checkpoint with the test set and metrics of a config file.

The same as ``python -m mmssprl test``, and what the launchers start.
"""

import sys
from pathlib import Path

# A checkout works without being installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Here and not in main(): a spawned worker runs only this, before it unpickles mmdet's data set,
# and mmdet asks for mmcv's operators, which mmssprl may have to provide.
import mmssprl  # noqa: E402, F401

if __name__ == "__main__":
    from mmssprl.cli.tool import run_tool

    run_tool("test")
