"""What prototypes stand for: the images and patches nearest to them, as in the paper's figure.

Legend: N images, M_s crops and K_s prototypes of scale s, px side of a crop.
"""

from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..console.style import INK, PYRAMIDS, RC, titled_figure
from .assignments import Assignments

NUM_PROTOTYPES, NUM_IMAGES, NUM_PATCHES = 6, 5, 3
"""Rows; images in each; prototypes of a level in each, with a patch."""
_CELL_INCHES = 1.05


class PrototypeRow(NamedTuple):
    """An image prototype, the share of the images that choose it, and the nearest of them.

    ``patches`` has, for each level, the number of a patch prototype, the share of these images'
    patches that choose it, and the patch nearest to it. Pictures are uint8 (..., px, px, 3).
    """

    number: int
    share: float
    images: NDArray[np.uint8]
    patches: list[list[tuple[int, float, NDArray[np.uint8]]]]


def draw_prototypes(found: Assignments) -> Figure:
    """Draw the image prototypes that most images choose, with their images and patches.

    On the right stand, for each level, the patch prototypes that the patches of the row's images
    choose most often, each with the patch nearest to it.
    """
    rows = find_prototypes(found)
    num_levels = len(found.cosines) - 1
    columns = NUM_IMAGES + num_levels * NUM_PATCHES
    of_patches = ", and what these images' patches choose" if num_levels else ""
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = titled_figure(
            (columns + 1.2) * _CELL_INCHES,
            len(rows) * (_CELL_INCHES + 0.3) + 0.7,
            f"{found.title}: prototypes of the image and the images nearest to them{of_patches}",
        )
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for row, axes in zip(rows, grid, strict=True):
            for place in axes:
                place.axis("off")
            for place, image in zip(axes, row.images, strict=False):
                place.imshow(image)
            _caption(axes[0], f"prototype {row.number}: {row.share:.0%} of the images", INK)
            for level, patches in enumerate(row.patches):
                first = NUM_IMAGES + level * NUM_PATCHES
                for place, (number, share, patch) in zip(axes[first:], patches, strict=False):
                    place.imshow(patch)
                    _caption(place, f"{level + 1}.{number}: {share:.0%}", PYRAMIDS[level % 2])
    return figure


def find_prototypes(found: Assignments) -> list[PrototypeRow]:
    """Return the image prototypes that most of the images choose."""
    rows = []
    for k, share in found.most_chosen(0, NUM_PROTOTYPES):
        mine = (found.choices(0)[:, 0] == k).nonzero()[:, 0].tolist()
        nearest = [row for row, _ in found.nearest(0, k, min(NUM_IMAGES, len(mine)))]
        images = np.stack([found.crop(row, 0, 0) for row in nearest])
        levels = range(1, len(found.cosines))
        rows.append(PrototypeRow(k, share, images, [_level(found, s, mine) for s in levels]))
    return rows


def _level(
    found: Assignments, scale: int, images: list[int]
) -> list[tuple[int, float, NDArray[np.uint8]]]:
    """Return what patches of some images choose most often, each with the patch nearest to it."""
    own = found.cosines[scale][images]  # (n, M_s, K_s)
    patches = []
    for k, share in found.most_chosen(scale, NUM_PATCHES, images):
        image, cell = divmod(int(own[:, :, k].flatten().argmax()), own.shape[1])
        patches.append((k, share, found.crop(images[image], scale, cell)))
    return patches


def _caption(axes: Axes, text: str, colour: str) -> None:
    axes.set_title(text, color=colour, fontsize=9, fontweight="normal", pad=2)
