"""Test a checkpoint with the test set and metrics of a config file."""

import argparse
import sys
from pathlib import Path
from typing import Any

# A checkout works without being installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Here and not in main(): a spawned worker runs only this, before it unpickles mmdet's data set,
# and mmdet asks for mmcv's operators, which mmssprl may have to provide.
import mmssprl  # noqa: E402, F401

EXAMPLES = """examples:
  python tools/test.py CONFIG work_dirs/a/epoch_100.pth
  bash tools/dist_test.sh CONFIG work_dirs/a/epoch_100.pth 8
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from mmssprl.arguments import Parser
    from mmssprl.tool import add_run_options

    parser = Parser(description=__doc__, epilog=EXAMPLES)
    parser.add_argument(
        "config",
        help="config file with a test_dataloader; configs/... finds a shipped one anywhere",
    )
    parser.add_argument(
        "checkpoint",
        help="weights to test: a file, a URL, or the folder of a run for its newest ones",
    )
    parser.add_argument(
        "--work-dir", help="folder of the logs; default: the config's, or work_dirs/<config name>"
    )
    parser.add_argument("--out", metavar="JSON", help="write the metrics to this file, too")
    parser.add_argument("--force", action="store_true", help="replace an existing JSON")
    add_run_options(parser, option="test_dataloader.batch_size=1")
    return parser


def test(*, out: str | None, force: bool, **options: Any) -> None:
    """Test as the options say."""
    from mmssprl.outputs import prepare_output

    if out:
        prepare_output(out, force=force)
    from mmssprl.engine.launch import prepare_test_config, run

    run(prepare_test_config(**options), "test", out=out)


if __name__ == "__main__":
    from mmssprl.tool import run_command

    run_command("test.py", make_parser, test)
