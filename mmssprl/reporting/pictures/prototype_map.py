"""All prototypes of a scale on a map, by t-SNE (Fig. 2 of the paper).

Legend: K prototypes of the scale, D their dimensions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from ...drawing.sheets import Tile, fill_grid
from ...drawing.style import CATEGORIES, MUTED, own_style, titled_figure
from ...errors import UserValueError
from ...search.selection import k_center
from ..assignments import Assignments

NUM_SHOWN = 5
"""Prototypes that are shown, each next to its nearest one."""
NUM_EXAMPLES = 3
"""Pictures of each."""
_MAP_INCHES = 5.6
_CELL_INCHES = 0.92
_LEAST = 5  # prototypes that t-SNE needs for a map
_LABEL = {"textcoords": "offset points", "ha": "center", "va": "center", "fontweight": "bold"}


def draw_prototype_map(found: Assignments, *, scale: int = 0) -> Figure:
    """Draw all prototypes of a scale, near each other where their cosines are high.

    A dot's area grows with the share of the images (or patches) that choose it. Five prototypes far
    from each other are shown by their nearest images or patches, each next to the prototype
    nearest to it, with the cosine of the two.
    """
    weights = found.model.head.prototypes[scale].weight.detach()  # (K, D)
    counts = found.counts(scale).numpy()
    points = place_prototypes(weights.numpy())
    used = np.flatnonzero(counts)

    # Five far from each other, beginning with the farthest from the mean of all.
    units = torch.nn.functional.normalize(weights, dim=1).numpy()
    first = int((units[used] @ units[used].mean(axis=0)).argmin())
    chosen = k_center(units[used], min(NUM_SHOWN, len(used)), first=first)
    cosines = units @ units.T
    pairs = [_with_nearest(int(used[row]), used, cosines) for row, _ in chosen]

    what = f"level {scale}" if scale else "the image"
    who = "patches of " if scale else ""
    width = 2 * NUM_EXAMPLES * _CELL_INCHES
    with own_style(axes__grid=False):
        figure = titled_figure(
            _MAP_INCHES + width,
            max(_MAP_INCHES, len(pairs) * (_CELL_INCHES + 0.2)) + 0.3,
            f"{found.title}: the {len(weights)} prototypes of {what}; "
            f"{who}{len(found.indices):,} images choose {len(used)} of them",
        )
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[_MAP_INCHES, width])[0]
        axes = left.subplots()
        _draw_dots(axes, points, counts)
        _draw_pairs(axes, points, pairs)

        rows: list[list[list[Tile]]] = []
        for (number, *nearest), colour in zip(pairs, CATEGORIES, strict=False):
            row = [found.tiles(scale, number, NUM_EXAMPLES, f"{number}", colour)]
            for k in nearest:
                words = f"{k}: cosine {cosines[number, k]:.2f}"
                row.append(found.tiles(scale, k, NUM_EXAMPLES, words, colour))
            rows.append(row)
        columns = right.subfigures(1, 2, wspace=0.03)
        for part, tiles in zip(columns, zip(*rows, strict=True), strict=False):
            fill_grid(part, tiles, _CELL_INCHES)
    return figure


def _with_nearest(number: int, used: NDArray[np.int64], cosines: NDArray[np.float32]) -> list[int]:
    """Return a prototype with the nearest of those in use; alone if there is no other."""
    is_other = used != number
    others = used[is_other]
    return [number, *others[cosines[number, others].argsort()[-1:]].tolist()]


def place_prototypes(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return places (K, 2) of prototypes (K, D), by scikit-learn's t-SNE over their cosines."""
    if len(weights) < _LEAST:
        raise UserValueError(
            f"a map needs at least {_LEAST} prototypes, but the scale has {len(weights)}."
        )
    perplexity = min(30.0, (len(weights) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="pca", random_state=0)
    return tsne.fit_transform(weights)


def _draw_pairs(axes: Axes, points: NDArray[np.float32], pairs: Sequence[list[int]]) -> None:
    """Draw a line between two prototypes of each pair, with their numbers at its ends."""
    labelled: set[int] = set()
    for pair, colour in zip(pairs, CATEGORIES, strict=False):
        axes.plot(*points[pair].T, color=colour, linewidth=1.2, marker="o", markersize=4)
        for k in {*pair} - labelled:
            away = points[k] - points[pair].mean(axis=0)  # from the middle of the line
            at: Any = {"xytext": 9 * away / max(np.hypot(*away), 1e-9), **_LABEL}
            axes.annotate(f"{k}", points[k], color=colour, **at)
        labelled |= {*pair}


def _draw_dots(axes: Axes, points: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
    is_used = counts > 0
    used = points[is_used]
    unused = points[~is_used]
    areas = 12 + 260 * counts[is_used] / counts.max()
    axes.scatter(used[:, 0], used[:, 1], s=areas, color="#9db8cf", alpha=0.7, linewidths=0)
    axes.scatter(unused[:, 0], unused[:, 1], s=12, color="none", edgecolors=MUTED, linewidths=0.7)
    axes.set(xticks=[], yticks=[])
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[:].set_visible(False)
    axes.margins(0.08)
    most = counts.max() / counts.sum()
    axes.set_xlabel(
        f"t-SNE of cosines; a dot's area is its use, {100 * most:.0f} % for the "
        "largest; hollow: chosen by none",
        loc="left",
    )
