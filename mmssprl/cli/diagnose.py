"""Say in words whether a run is healthy.

Read the log of a pre-training, finished or not, and say what is wrong with it and what
helps, or that nothing is; and how its curves compare with those of healthy runs. The exit
code is 1 if there is a trouble. `visualize losses` draws the curves.

examples:
  python -m mmssprl diagnose work_dirs/pretrain_photos
  python -m mmssprl diagnose work_dirs/pretrain_photos/20260101_000000/vis_data/scalars.json
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the command."""
    parser.add_argument("work_dir", metavar="RUN", help="work dir of the run, or its scalars.json")


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis."""
    from ..monitoring import TROUBLES, diagnose

    diagnosis = diagnose(args.work_dir)
    print("\n".join(diagnosis.lines))
    return int(diagnosis.verdict in TROUBLES)
