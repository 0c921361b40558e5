"""``python -m mmssprl pack``: many image files in one."""

import argparse
from typing import TYPE_CHECKING

from ..errors import UserFileNotFoundError, UserValueError

if TYPE_CHECKING:
    from ..datasets.packing import PackReport

_EPILOG = """\
examples:
  python -m mmssprl pack data/imagenet/train data/imagenet_train.lmdb
  python -m mmssprl pack data/coco/train2014 data/train.lmdb --ann-file data/my_images.txt
  python -m mmssprl pack --check data/imagenet_train.lmdb
"""

_EXIT_BAD = 1
_EXIT_STOPPED = 130


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Register the command ``pack``."""
    parser = subparsers.add_parser(
        "pack",
        help="pack the images of a folder into one file, for drives slow at many small ones",
        description="Copy the image files below DIR, unchanged, into the one file OUT, read\n"
        "them again and compare. Stopped, it goes on when run again with the same arguments.\n"
        "Use OUT as data_root of UnlabeledImages: the samples are those of the folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dir", metavar="DIR", nargs="?", help="folder of images")
    parser.add_argument("out", metavar="OUT", nargs="?", help="file to write, e.g. train.lmdb")
    parser.add_argument(
        "--ann-file",
        metavar="FILE",
        help="only the images of a list (.txt, one path a line) or a COCO file (.json), in its "
        "order, relative to DIR",
    )
    parser.add_argument(
        "--check", metavar="FILE", help="verify the checksums of a packed file, alone"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Pack or check; returns 0, 1 for a damaged file, 130 if it was stopped."""
    _check_arguments(args)
    try:
        return _check(args.check) if args.check else _pack(args)
    except KeyboardInterrupt:
        print("stopped; run the same command again, packing goes on where it was")
        return _EXIT_STOPPED


def _check_arguments(args: argparse.Namespace) -> None:
    if args.check and (args.dir or args.ann_file):
        raise UserValueError(
            "--check FILE verifies a packed file alone; leave DIR, OUT and --ann-file"
        )
    if not args.check and not args.out:
        raise UserValueError("pack needs DIR and OUT, or --check FILE; see pack --help.")


def _pack(args: argparse.Namespace) -> int:
    import os

    from ..datasets import UnlabeledImages
    from ..datasets.packed_images import is_packed
    from ..datasets.packing import pack

    if is_packed(args.dir):
        raise UserValueError(f"DIR must be a folder of images, but {args.dir} is packed already.")
    ann_file = os.path.abspath(args.ann_file) if args.ann_file else ""
    images = UnlabeledImages(data_root=args.dir, ann_file=ann_file)
    report = pack(args.dir, images.names, args.out, log=_print)
    if report is None:
        print(f"{args.out} is complete already and was left alone: {len(images):,} images")
        return 0
    _print_report(report)
    print(f"complete: {args.out}; use it as data_root of UnlabeledImages")
    return 0


def _check(path: str) -> int:
    import os

    from ..datasets.packing import verify

    if not os.path.isfile(path):
        raise UserFileNotFoundError(
            f"--check needs a packed file, but {path} is missing; correct it."
        )
    report = verify(path, log=_print)
    _print_report(report)
    if report.num_bad:
        print(f"damaged: {report.num_bad:,} images; delete {path} and pack the images again")
        return _EXIT_BAD
    if not report.is_complete:
        print(f"not complete, of {report.num_images:,} images; run pack again as before")
        return _EXIT_BAD
    print("all checksums are right")
    return 0


def _print_report(report: "PackReport") -> None:
    print(f"{report.num_stored:,} images, {report.num_bytes:,} bytes")
    _print_names("empty files, packed as they are", report.num_empty, report.empty)
    _print_names("bad", report.num_bad, report.bad)


def _print_names(what: str, count: int, names: list[str]) -> None:
    if count:
        print(f"{count:,} {what}:")
        print("\n".join(f"  {name!r}" for name in names))
        if count > len(names):
            print(f"  and {count - len(names):,} more")


def _print(line: str) -> None:
    print(line, flush=True)  # at once, in a log file too
