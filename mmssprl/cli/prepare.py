"""Check the folder of a data set, say what is missing and how to get it.

Check lists, annotations and images of a data set and print a table: OK, MISSING or
WRONG for each piece. For what is missing print the shell commands that fetch it;
nothing is downloaded. Once all the rest is there, voc12aug converts SBD's labels to
label images. The exit code is 0 if everything is there and right, 1 if not.

examples:
  python -m mmssprl prepare coco data/coco
  python -m mmssprl prepare voc07 data
  python -m mmssprl prepare voc12aug data
  python -m mmssprl prepare imagenet data/imagenet
  python -m mmssprl prepare coco data/scenes/coco --any-size
"""

import argparse
from pathlib import Path

from ..console.quiet import say

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
    add("--check-only", action="store_true", help="convert nothing (matters to voc12aug only)")


def run(args: argparse.Namespace) -> int:
    """Check, convert if that is possible and wanted, and print what was found."""
    from ..preparation import DATA_SETS, OK, format_remedies, format_table, prepare

    root = Path(args.folder)
    findings = prepare(
        args.data_set, root, any_size=args.any_size, check_only=args.check_only, log=say
    )
    print(f"{args.data_set} in {root}\n\n{format_table(findings)}")
    bad = [item for item in findings if item.status != OK]
    if not bad:
        print("\neverything is there")
        return 0
    print(f"\nexpected:\n{DATA_SETS[args.data_set].TREE}")
    print(f"to get or mend what is not OK:\n{format_remedies(bad)}")
    return 1
