"""See SS-PRL learn on sample data.

Generate the sample data, pre-train a small ResNet with SS-PRL, with SwAV without
small views (at equal epochs and at equal time) and with six (at equal time), probe
all of them and random weights, and leave table, pictures, logs, configs and weights
in the work dir.

examples:
  python -m mmssprl demo
  python -m mmssprl demo --work-dir work_dirs/demo --seeds 1

A demo that was stopped goes on where it was when started again with the same work dir.
"""

import argparse
from pathlib import Path

from ..errors import UserValueError
from ..system.environment import usable_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--work-dir", default="work_dirs/demo", help="default: %(default)s")
    add("--seeds", type=int, default=3, help="runs of each (default: 3)")
    add(
        "--jobs",
        type=int,
        default=usable_cores(),
        help="trainings at once, one core each (default: the number of cores)",
    )


def run(args: argparse.Namespace) -> int:
    """Run what is missing, print the table, and name the files."""
    from ..demo.run import run_demo
    from ..system.one_run import hold_work_dir

    for name in ("seeds", "jobs"):
        if getattr(args, name) < 1:
            raise UserValueError(f"--{name} must be >= 1, but got {getattr(args, name)}.")
    with hold_work_dir(args.work_dir):
        run_demo(Path(args.work_dir), num_seeds=args.seeds, num_jobs=args.jobs)
    return 0
