"""Check the folder of a data set, say what is missing and how to get it.

Check lists, annotations and images of a data set and print a table: OK, MISSING or
WRONG for each piece. For what is missing print the shell commands that fetch or make
it; nothing is downloaded or changed. The exit code is 0 if everything is there and
right, 1 if not.

examples:
  python -m mmssprl prepare coco data/coco
  python -m mmssprl prepare voc07 data
  python -m mmssprl prepare voc12aug data
  python -m mmssprl prepare imagenet data/imagenet
  python -m mmssprl prepare coco data/scenes/coco --any-size
"""

import argparse
from pathlib import Path

_DATA_SETS = ("coco", "voc07", "voc12aug", "imagenet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("data_set", choices=_DATA_SETS, help="which data set")
    add("folder", metavar="DIR", help="its folder; see docs/data.md for the trees")
    add(
        "--any-size",
        action="store_true",
        help="other numbers of images than the official ones are right too, as of own data",
    )
    # Of former versions, which converted SBD.
    add("--check-only", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Check, and print what was found and what comes next."""
    from ..preparation import DATA_SETS, OK, check_data, format_remedies, format_table

    root = Path(args.folder)
    findings = check_data(args.data_set, root, any_size=args.any_size)
    print(f"{args.data_set} in {root}\n\n{format_table(findings)}")
    bad = [item for item in findings if item.status != OK]
    if not bad:
        print("\neverything is there")
        return 0
    print(f"\nexpected:\n{DATA_SETS[args.data_set].TREE}")
    print(f"to get or mend what is not OK:\n{format_remedies(bad)}")
    return 1
