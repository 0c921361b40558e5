"""Find images by their features: `neighbors` and `select`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..console.options import argument, option, optional
from ..console.paths import PICTURES
from ..console.tables import csv_table, markdown_table
from ..console.wording import counted
from ..system.outputs import prepare_output, write_figure, write_whole
from ._command import IMAGES, Command, OfWeights, Overwriting

_MOST_LINES = 200
_OUT = "file to write: the table (.csv), or a sheet of the images (.png, .pdf, ...)"

_NEIGHBORS = """\
Find the nearest photographs to some photographs.

Compare QUERY, an image or a folder, with all IMAGES by the cosine similarity of their
features, and print a table.

examples:
  python -m mmssprl neighbors backbone.pth photo.jpg photos/ --out rows.png
  python -m mmssprl neighbors backbone.pth some/ photos/ --embeddings photos.npz --num 5
"""


class _Neighbors(OfWeights, Overwriting):
    query: str = argument("an image or a folder of images")
    images: str = argument(IMAGES)
    num: int = option("neighbours per query", default=8)
    embeddings: str | None = option(
        "file that `embed` wrote for IMAGES with these weights", chosen="computed"
    )
    out: str | None = optional(_OUT)


def _neighbors(args: _Neighbors) -> None:
    _prepare(args)

    from ..features.extract import Images
    from ..search.contact_sheet import draw_neighbors
    from ..search.neighbor_search import neighbors
    from ..weights import find_config

    found = neighbors(
        args.weights,
        args.query,
        args.images,
        num=args.num,
        embeddings=args.embeddings,
        config=args.config,
        image_px=args.image_px,
    )
    heads = ["query", "nearest", "rank", "cosine"]
    lines = [[each.query, each.nearest, str(each.rank), f"{each.cosine:.4f}"] for each in found]
    queries = counted(len({each.query for each in found}), "image")
    summary = f"{counted(len(lines), 'neighbour')} of {queries}"

    def draw() -> Any:
        cfg = find_config(args.weights, args.config)
        sources = (Images(each, like=cfg) for each in (args.query, args.images))
        return draw_neighbors(found, *sources)

    _finish(args, heads, lines, summary, draw)


_SELECT = """\
Choose images to label, to look at or to delete.

Choose among the images whose features `embed` wrote. diverse: images far from each
other (greedy k-center), to label next. typical: the densest image of each of --num
clusters (TypiClust). outliers: images far from all others. duplicates: groups of
near-identical images. No image is changed or deleted.

examples:
  python -m mmssprl select photos.npz --num 500 --out next.csv
  python -m mmssprl select photos.npz --method duplicates --out duplicates.png
"""


class _Select(Overwriting):
    embeddings: str = argument("file that `embed` wrote")
    num: int | None = option("images to choose", chosen="100; for duplicates all groups")
    method: Literal["diverse", "typical", "outliers", "duplicates"] = option(
        "how to choose", default="diverse"
    )
    images: str | None = optional("folder or tar file, if they have moved since `embed`")
    out: str | None = optional(_OUT)


def _select(args: _Select) -> None:
    _prepare(args)

    from ..features.extract import Images
    from ..search import read_embeddings, select
    from ..search.contact_sheet import draw_selected

    known = read_embeddings(args.embeddings)
    source, like = args.images or known.about["images"], known.about.get("pixels")
    is_drawn = args.out and not _is_table(args.out)
    images: Any = Images(source, "images (--images)", like) if is_drawn else None
    found = select(known, num=args.num, method=args.method)
    heads = ["image", "rank", "cosine"]
    summary = f"{len(found):,} of {len(known):,} images"
    if args.method == "duplicates":
        heads = ["image", "group", "cosine", "keep"]
        kept = sum(each.keep for each in found)
        summary = f"{kept:,} groups of {len(found):,} images, of which {len(found) - kept:,} can go"
    cells = ((x.image, str(x.rank), f"{x.cosine:.4f}", "yes" if x.keep else "no") for x in found)
    draw = lambda: draw_selected(found, images, args.method)  # noqa: E731
    _finish(args, heads, [row[: len(heads)] for row in cells], summary, draw)


def _is_table(out: str) -> bool:
    return out.lower().endswith(".csv")


def _prepare(args: _Neighbors | _Select) -> None:
    if args.out:
        prepare_output(args.out, ".csv", *PICTURES, overwrite=args.overwrite)


def _finish(
    args: _Neighbors | _Select,
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    summary: str,
    draw: Callable[[], Any],
) -> None:
    """Print the first lines of a table and its summary, and write --out."""
    if lines:
        num_left = heads.index("cosine") - 1  # the text columns come before the rank
        print("\n" + markdown_table(heads, lines[:_MOST_LINES], num_left=num_left))
    if len(lines) > _MOST_LINES:
        print(f"... and {len(lines) - _MOST_LINES:,} more; --out FILE.csv writes all.")
    print(f"\n{summary}")
    if args.out and _is_table(args.out):
        write_whole(args.out, csv_table(heads, lines))
        print(f"table: {args.out}")
    elif args.out and lines:
        write_figure(args.out, draw())
        print(f"picture: {args.out}")
    elif args.out:
        print("picture: none, as there is nothing to draw")


COMMANDS = {
    "neighbors": Command(_NEIGHBORS, _Neighbors, _neighbors),
    "select": Command(_SELECT, _Select, _select),
}
