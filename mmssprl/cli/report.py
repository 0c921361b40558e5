"""Write a page about a pre-training: did it learn, and what now.

Write one HTML file that needs nothing else: what ran and whether it is healthy, the
recipe with its reasons, curves beside those of healthy runs, views, nearest photographs
and prototypes of some images, time and memory, and the commands that come next.
`pretrain` writes it at its end; a run that was stopped can be reported as well.

examples:
  python -m mmssprl report work_dirs/pretrain_photos
  python -m mmssprl report work_dirs/pretrain_photos --out photos.html
  python -m mmssprl report work_dirs/pretrain_photos --images moved/photos
"""

import argparse

from ..console.quiet import quiet_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("work_dir", metavar="RUN", help="work dir of the run")
    add("--out", metavar="FILE", help="page to write (default: report.html in RUN, replaced)")
    add(
        "--images",
        metavar="DIR",
        help="folder or tar file, if the images of the run have moved",
    )
    add("--force", action="store_true", help="replace an existing FILE")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    with quiet_console():
        from ..reporting import write_report

        page = write_report(args.work_dir, args.out, images=args.images, force=args.force)
        print(f"report: {page}")
    return 0
