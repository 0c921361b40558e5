"""Find images by their features: `neighbors` and `select`."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..console.tables import csv_table, markdown_table
from ..system import outputs
from ..system.outputs import write_figure, write_whole
from ._command import Command, add_feature_options, add_weights, feature_options

_MOST_LINES = 200

_NEIGHBORS = """\
Find the nearest photographs of some photographs.

Compare QUERY, an image or a folder of some, with all images of DIR by the cosine of
their features; print a table, and draw rows of the nearest ones. With --above only
neighbours of so great a cosine are listed, and each pair once: with DIR as QUERY these
are the near-identical images of a folder.

examples:
  python -m mmssprl neighbors backbone.pth photo.jpg photos/ --out rows.png
  python -m mmssprl neighbors backbone.pth some/ photos/ --embeddings photos.npz --num 5
  python -m mmssprl neighbors backbone.pth photos/ photos/ --above 0.98 --csv duplicates.csv
"""


def _add_neighbors(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    embeddings = "what `embed` wrote for DIR with these weights: .npz or .parquet"
    add_weights(parser)
    add("query", metavar="QUERY", help="an image, or a folder of some")
    add("dir", metavar="DIR", help="folder of images or of .tar files, or one .tar file")
    add("--num", type=int, default=8, metavar="K", help="neighbours of each (default: %(default)s)")
    add("--above", type=float, metavar="COSINE", help="leave out neighbours of a lesser cosine")
    add("--embeddings", metavar="FILE", help=embeddings)
    add_feature_options(parser)
    _add_outputs(parser)


def _neighbors(args: argparse.Namespace) -> int:
    _prepare_outputs(args)

    from ..features.contact_sheet import draw_neighbors
    from ..features.extract import Images
    from ..features.neighbor_search import neighbors
    from ..pixels import Pixels
    from ..weights import find_config

    options = {name: getattr(args, name) for name in ("num", "above", "embeddings")}
    found = neighbors(args.weights, args.query, args.dir, **options, **feature_options(args))
    folders = [Path(folder).resolve() for folder in (args.dir, args.query)]

    def below(path: str) -> str:
        """Return a path's name below DIR or QUERY."""
        inside = (Path(path).relative_to(f) for f in folders if f in Path(path).parents)
        return str(next(inside, Path(path).name))

    heads = ["query", "nearest", "rank", "cosine"]
    lines = [[each.query, each.nearest, str(each.rank), f"{each.cosine:.4f}"] for each in found]
    summary = f"{len(lines):,} neighbours of {len({each.query for each in found}):,} images"

    def draw() -> Any:
        pixels = Pixels.of_config(find_config(args.weights, args.config))
        return draw_neighbors(found, *(Images(x, pixels=pixels) for x in (args.query, args.dir)))

    _tell(args, heads, lines, summary, draw, below)
    return 0


_SELECT = """\
Choose images to label, to look at or to delete.

Choose among the images whose features `embed` wrote to EMBEDDINGS. diverse: as far
from each other as can be (greedy k-center), to label next. typical: the densest image
of each of --num clusters, for a first look or few labels (TypiClust). outliers: the
loneliest ones. duplicates: groups of near-identical ones, of each of which the image of
the most pixels is kept. No image is changed or deleted.

examples:
  python -m mmssprl select photos.npz --num 500 --csv next.csv --out next.png
  python -m mmssprl select photos.npz --method duplicates --above 0.999 --out duplicates.png
"""

_METHODS = ("diverse", "typical", "outliers", "duplicates")


def _add_select(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("embeddings", metavar="EMBEDDINGS", help="what `embed` wrote: .npz or .parquet")
    add("--num", type=int, metavar="N", help="images (default: 100), or groups (default: all)")
    add("--method", choices=_METHODS, default="diverse", help="default: %(default)s")
    above = "least cosine of duplicates (default: %(default)s)"
    add("--above", type=float, default=0.999, metavar="COSINE", help=above)
    add("--images", metavar="DIR", help="folder or tar file, if they have moved since `embed`")
    _add_outputs(parser)


def _select(args: argparse.Namespace) -> int:
    _prepare_outputs(args)

    from ..features import read_embeddings, select
    from ..features.contact_sheet import draw_selected
    from ..features.extract import Images
    from ..pixels import Pixels

    known = read_embeddings(args.embeddings)
    found = select(known, num=args.num, method=args.method, above=args.above)
    heads = ["image", "rank", "cosine"]
    summary = f"{len(found):,} of {len(known.of_scale(0)):,} images"
    if args.method == "duplicates":
        heads = ["image", "group", "cosine", "keep"]
        kept = sum(each.keep for each in found)
        summary = f"{kept:,} groups of {len(found):,} images, of which {len(found) - kept:,} can go"
    cells = ((x.image, str(x.rank), f"{x.cosine:.4f}", "yes" if x.keep else "no") for x in found)
    source, pixels = args.images or known.about["images"], Pixels.build(known.about.get("pixels"))
    images = lambda: Images(source, "images (--images)", pixels)  # noqa: E731
    draw = lambda: draw_selected(found, images(), args.method)  # noqa: E731
    _tell(args, heads, [row[: len(heads)] for row in cells], summary, draw)
    return 0


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", metavar="PNG", help="picture to write, .png or .pdf")
    add("--csv", metavar="CSV", help="write the whole table to this file")
    add("--overwrite", action="store_true", help="replace existing files")


def _prepare_outputs(args: argparse.Namespace) -> None:
    outputs.check_different({"--out": args.out, "--csv": args.csv})
    if args.out:
        outputs.prepare_picture(args.out, overwrite=args.overwrite)
    if args.csv:
        outputs.prepare_output(args.csv, overwrite=args.overwrite)


def _tell(
    args: argparse.Namespace,
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    summary: str,
    draw: Callable[[], Any],
    shorten: Callable[[str], str] = str,
) -> None:
    """Print the beginning of a table and what it amounts to, and write --csv and --out."""
    num_left = heads.index("cosine") - 1  # text, to shorten, stands before a rank
    shown = [[*map(shorten, x[:num_left]), *x[num_left:]] for x in lines[:_MOST_LINES]]
    if lines:
        print("\n" + markdown_table(heads, shown, num_left=num_left))
    if len(lines) > len(shown):
        print(f"... and {len(lines) - len(shown):,} more; --csv writes all.")
    print(f"\n{summary}")
    if args.csv:
        write_whole(args.csv, csv_table(heads, lines))
        print(f"table: {args.csv}")
    if args.out and lines:
        write_figure(args.out, draw())
        print(f"picture: {args.out}")
    elif args.out:
        print("picture: none, for there is nothing to draw")


COMMANDS = {
    "neighbors": Command(_NEIGHBORS, _add_neighbors, _neighbors),
    "select": Command(_SELECT, _add_select, _select),
}
