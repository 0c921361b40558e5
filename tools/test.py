"""Test a checkpoint with the test set and metrics of a config file."""

import argparse
import os
import sys
from pathlib import Path

# A checkout works without being installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Here and not in main(): a spawned worker runs only this, before it unpickles mmdet's data set,
# and mmdet asks for mmcv's operators, which mmssprl may have to provide.
import mmssprl  # noqa: E402, F401

EXAMPLES = """examples:
  python tools/test.py CONFIG work_dirs/a/epoch_100.pth
  bash tools/dist_test.sh CONFIG work_dirs/a/epoch_100.pth 8
"""


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line and set LOCAL_RANK for launchers that only pass the flag."""
    from mmengine.config import DictAction

    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        metavar="KEY=VALUE",
        help="replace values of the config, for example test_dataloader.batch_size=1",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show what otherwise only the log file gets: environment, config, hooks, all warnings",
    )
    parser.add_argument(
        "--launcher",
        choices=["none", "pytorch", "slurm", "mpi"],
        default="none",
        help="what started the processes; none: a single process",
    )
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0, help="set by launcher")
    args = parser.parse_args(argv)
    os.environ.setdefault("LOCAL_RANK", str(args.local_rank))
    return args


def main() -> None:
    """Test, or end with one line that says which argument does not fit."""
    from mmssprl.console import quiet_console
    from mmssprl.errors import message_for_user
    from mmssprl.outputs import prepare_output

    try:
        # Before mmengine is imported, to read the options: that may warn too.
        with quiet_console(verbose="--verbose" in sys.argv):
            args = vars(parse_args())
            del args["local_rank"], args["verbose"]
            out, force = args.pop("out"), args.pop("force")
            if out:
                prepare_output(out, force=force)

            from mmssprl.engine.launch import prepare_test_config, run

            run(prepare_test_config(**args), "test", out=out)
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(f"test.py: error: {message}")


if __name__ == "__main__":
    main()
