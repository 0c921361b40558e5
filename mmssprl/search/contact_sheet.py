"""Contact sheets of pictures with captions: neighbours, selected images, predictions."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby

import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from ..console.wording import printable
from ..datasets import ImageReadError
from ..drawing.sheets import Tile, draw_grid, picture, spread
from ..errors import UserValueError
from ..features.extract import Images
from .neighbor_search import Neighbor
from .selection import Selected

MOST_ROWS = 12
MOST_COLUMNS = 8
_COSINES = {
    "diverse": "cosine to the nearest before",
    "typical": "mean cosine in the cluster",
    "outliers": "mean cosine to the nearest 20",
    "duplicates": "cosine to the kept one",
}
"""The cosine of each method of ``select``, in a title."""


def draw_neighbors(
    found: Sequence[Neighbor], queries: Images, images: Images, *, num_rows: int = MOST_ROWS
) -> Figure:
    """Draw a row per query, for at most ``num_rows`` queries, evenly spaced."""
    query_at = _index_of_paths(queries)
    image_at = _index_of_paths(images)
    groups = [[*row] for _, row in groupby(found, lambda neighbor: neighbor.query)]
    shown = [groups[i] for i in spread(len(groups), num_rows)]
    rows = []
    for group in shown:
        query = _tile(queries, query_at[group[0].query], "query")
        nearest = [_tile(images, image_at[x.nearest], f"{x.cosine:.3f}") for x in group]
        rows.append([query, *nearest])
    part = f", {len(rows)} of {len(groups)} rows" if len(rows) < len(groups) else ""
    return draw_grid(rows, f"nearest photographs and their cosines{part}")


def _index_of_paths(images: Images) -> dict[str, int]:
    return {path: index for index, path in enumerate(images.paths(images.names))}


def draw_selected(found: Sequence[Selected], images: Images, method: str) -> Figure:
    """Draw the first images that ``select`` chose, for duplicates one row per group."""
    place = {name: index for index, name in enumerate(images.names)}
    if gone := [each.image for each in found if each.image not in place]:
        raise UserValueError(
            f"images must be the embedded ones, but {printable(gone[0])} is not in {images.root}; "
            "give the embedded folder."
        )

    is_grouped = method == "duplicates"
    rows: dict[int, list[Tile]] = {}
    for each in found:
        row = rows.setdefault(each.rank if is_grouped else (each.rank - 1) // MOST_COLUMNS, [])
        if len(rows) <= MOST_ROWS and len(row) < MOST_COLUMNS:
            words = "kept" if is_grouped and each.keep else f"{each.cosine:.3f}"
            row.append(_tile(images, place[each.image], f"{each.rank}: {words}"))
    shown = [*rows.values()][:MOST_ROWS]
    num = sum(map(len, shown))
    part = f"{num} of " if num < len(found) else ""
    what = f"{method}: {part}{len(found):,} images, {_COSINES[method]}"
    return draw_grid(shown, what)


def _tile(images: Images, index: int, words: str) -> Tile:
    """Show the central square of an image, of which the features are."""
    square = None
    with suppress(ImageReadError):
        whole = Image.fromarray(picture(images.load(index)))
        square = np.asarray(ImageOps.fit(whole, (min(whole.size),) * 2))
    return Tile(square, words, images.names[index])
