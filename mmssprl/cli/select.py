"""Choose images by their features: `select`."""

import argparse

from ..console.tables import csv_table, markdown_table
from ..system.outputs import (
    check_different,
    prepare_output,
    prepare_picture,
    write_figure,
    write_whole,
)
from ._command import Command

_SELECT = """\
Choose images to label, to look at or to delete.

Choose among the images whose features `embed` wrote to EMBEDDINGS. diverse: as far
from each other as can be (greedy k-center), to label next; --labelled tells what is
labelled already. typical: the densest image of each of --num clusters, for a first look
or few labels (TypiClust). outliers: the loneliest ones. duplicates: groups of near-identical
ones, of each of which the image of the most pixels is kept. No image is changed or deleted.

examples:
  python -m mmssprl select photos.npz --num 500 --csv next.csv --out next.png
  python -m mmssprl select photos.npz --num 500 --labelled next.csv --csv then.csv
  python -m mmssprl select photos.npz --method duplicates --above 0.999 --out duplicates.png
"""

_METHODS = ("diverse", "typical", "outliers", "duplicates")
_MOST_LINES = 200


def _add_select(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("embeddings", metavar="EMBEDDINGS", help="what `embed` wrote: .npz or .parquet")
    add(
        "--num",
        type=int,
        metavar="N",
        help="images (default: 100), of duplicates groups (default: all)",
    )
    add("--method", choices=_METHODS, default="diverse", help="default: %(default)s")
    add(
        "--labelled",
        metavar="FILE",
        help="labelled images: a CSV of this command, or what `embed` wrote for them",
    )
    add(
        "--above",
        type=float,
        default=0.999,
        metavar="COSINE",
        help="least cosine of duplicates (default: %(default)s)",
    )
    add("--csv", metavar="CSV", help="write the whole list to this file")
    add("--out", metavar="PNG", help="contact sheet to write, .png or .pdf")
    add("--images", metavar="DIR", help="folder or tar file, if they have moved since `embed`")
    add("--force", action="store_true", help="replace existing files")


def _select(args: argparse.Namespace) -> int:
    check_different({"--out": args.out, "--csv": args.csv})
    if args.out:
        prepare_picture(args.out, force=args.force)
    if args.csv:
        prepare_output(args.csv, force=args.force)

    from ..features import read_embeddings, select

    embeddings = read_embeddings(args.embeddings)
    found = select(
        embeddings,
        num=args.num,
        method=args.method,
        labelled=args.labelled,
        above=args.above,
    )
    is_grouped = args.method == "duplicates"
    heads = ["image", "group" if is_grouped else "rank", "cosine"] + ["keep"] * is_grouped
    lines = [
        [each.image, str(each.rank), f"{each.cosine:.4f}"]
        + [("yes" if each.keep else "no")] * is_grouped
        for each in found
    ]
    if lines:
        print(markdown_table(heads, lines[:_MOST_LINES]) + "\n")
    if len(lines) > _MOST_LINES:
        print(f"... and {len(lines) - _MOST_LINES:,} more; --csv writes all.")
    if is_grouped:
        num_groups = sum(each.keep for each in found)
        can_go = f", of which {len(found) - num_groups:,} can go"
        print(f"{num_groups:,} groups of {len(found):,} images{can_go}")
    else:
        print(f"{len(found):,} of {len(embeddings.of_scale(0)):,} images")
    if args.csv:
        write_whole(args.csv, csv_table(heads, lines))
        print(f"list: {args.csv}")
    if args.out and not found:
        print("picture: none, for there is no image to draw")
    elif args.out:
        from ..features.contact_sheet import draw_selected
        from ..features.extract import Images

        images = Images(args.images or embeddings.about["images"], "images (--images)")
        write_figure(args.out, draw_selected(found, images, args.method))
        print(f"picture: {args.out}")
    return 0


COMMANDS = {"select": Command(_SELECT, _add_select, _select)}
