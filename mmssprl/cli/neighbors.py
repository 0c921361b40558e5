"""Find the nearest photographs of some photographs.

Compare QUERY, an image or a folder of some, with all images of DIR by the cosine of
their features; print a table, and draw rows of the nearest ones. With --above only
neighbours of so great a cosine are listed, and each pair once: with DIR as QUERY these
are the near-identical images of a folder.

examples:
  python -m mmssprl neighbors backbone.pth photo.jpg photos/ --out rows.png
  python -m mmssprl neighbors backbone.pth some/ photos/ --embeddings photos.npz --num 5
  python -m mmssprl neighbors backbone.pth photos/ photos/ --above 0.98 --csv duplicates.csv
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from ..console.tables import csv_table, markdown_table
from ..system.outputs import (
    check_different,
    prepare_output,
    prepare_picture,
    write_figure,
    write_whole,
)
from ._options import add_feature_options, feature_options
from .embed import add_weights

_MOST_LINES = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add_weights(parser)
    add("query", metavar="QUERY", help="an image, or a folder of some")
    add("dir", metavar="DIR", help="folder of images or of .tar files, or one .tar file")
    add("--out", metavar="PNG", help="picture to write, .png or .pdf")
    add("--csv", metavar="CSV", help="write the whole table to this file")
    add("--num", type=int, default=8, metavar="K", help="neighbours of each (default: %(default)s)")
    add("--above", type=float, metavar="COSINE", help="leave out neighbours of a lesser cosine")
    add(
        "--embeddings",
        metavar="FILE",
        help="what `embed` wrote for DIR with these weights: .npz or .parquet",
    )
    add_feature_options(parser)
    add("--force", action="store_true", help="replace existing files")


def run(args: argparse.Namespace) -> int:
    """Compare, print the table, and write what was asked for."""
    check_different({"--out": args.out, "--csv": args.csv})
    if args.out:
        prepare_picture(args.out, force=args.force)
    if args.csv:
        prepare_output(args.csv, force=args.force)

    from ..features.neighbor_search import neighbors

    found = neighbors(
        args.weights,
        args.query,
        args.dir,
        num=args.num,
        above=args.above,
        embeddings=args.embeddings,
        **feature_options(args),
    )
    heads = ["query", "nearest", "rank", "cosine"]
    lines = [[each.query, each.nearest, str(each.rank), f"{each.cosine:.4f}"] for each in found]
    if lines:
        short = [[*map(_below(args), line[:2]), *line[2:]] for line in lines[:_MOST_LINES]]
        print("\n" + markdown_table(heads, short, num_left=2))
    if len(lines) > _MOST_LINES:
        print(f"... and {len(lines) - _MOST_LINES:,} more; --csv writes all.")
    print(f"\n{len(lines):,} neighbours of {len({each.query for each in found}):,} images")
    if args.csv:
        write_whole(args.csv, csv_table(heads, lines))
        print(f"table: {args.csv}")
    if args.out and not found:
        print("picture: none, for there is no neighbour to draw")
    elif args.out:
        from ..features.extract import Images
        from ..features.neighbor_search import draw_neighbors

        write_figure(args.out, draw_neighbors(found, Images(args.query), Images(args.dir)))
        print(f"picture: {args.out}")
    return 0


def _below(args: argparse.Namespace) -> Callable[[str], str]:
    """Return what shortens a path to its name below DIR or QUERY."""
    folders = [Path(folder).resolve() for folder in (args.dir, args.query)]

    def shorten(path: str) -> str:
        return next(
            (str(Path(path).relative_to(f)) for f in folders if f in Path(path).parents),
            Path(path).name,
        )

    return shorten
