"""Test a checkpoint with the test set and metrics of a config file.

What tools/test.py of a checkout does. One process; for several there are
tools/dist_test.sh and tools/slurm_test.sh.

examples:
  python -m mmssprl test CONFIG work_dirs/a/epoch_100.pth
"""

import argparse
from typing import Any

from ..console.quiet import quiet_console
from .tool import add_run_options, run_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
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


def test(*, out: str | None, force: bool, **options: Any) -> None:
    """Test as the options say."""
    from ..system.outputs import prepare_output

    if out:
        prepare_output(out, force=force)
    from ..engine.launch import prepare_test_config, run

    run(prepare_test_config(**options), "test", out=out)


def run(args: argparse.Namespace) -> int:
    """Test, in this process or as one of several of a launcher."""
    with quiet_console(verbose=args.verbose):
        test(**run_options(args))
    return 0
