"""What prototypes stand for: all of them, and one with the prototypes of its images' patches.

Legend: N images, M_s crops and K_s prototypes of scale s, px side of a crop.
"""

from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..console.style import CATEGORIES, INK, MUTED, PYRAMIDS, RC, titled_figure
from ..errors import UserValueError
from .assignments import Assignments, check_scale
from .views import outline

NUM_PROTOTYPES, NUM_IMAGES, NUM_PATCHES = 6, 5, 3
"""Rows; images in each; prototypes of a level in each, with a patch."""
_CELL_INCHES = 1.05
NUM_PARTS, NUM_EXAMPLES = 3, 8  # patch prototypes by each order, and examples of each of these
_EXAMPLE_INCHES = 1.3
_IMAGE_ROW = 1.9  # height of the row of images / side of an example


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


def draw_prototype_parts(found: Assignments, prototype: int, *, scale: int = 1) -> Figure:
    """Draw one image prototype: its images, and what the patches in them choose.

    On the images lie the patches of a scale. Those that choose one of the three patch prototypes
    that are chosen most often have its colour. A row each shows examples of these three, and of the
    three to which the correlation learner g_s gives the greatest weight for the image prototype.
    """
    check_scale(found.model, scale, least=1)
    counts = found.counts(0)
    if not 0 <= prototype < len(counts) or not counts[prototype]:
        used = counts.nonzero()[:, 0].tolist()
        raise UserValueError(
            f"prototype must be one that an image chooses, but got {prototype}; these are "
            f"{', '.join(map(str, used))}."
        )
    mine = (found.choices(0)[:, 0] == prototype).nonzero()[:, 0].tolist()
    shown = [row for row, _ in found.nearest(0, prototype, min(NUM_IMAGES, len(mine)))]
    often = found.most_chosen(scale, NUM_PARTS, mine)
    colours = {k: colour for (k, _), colour in zip(often, CATEGORIES, strict=False)}
    chosen = [(k, f"{share:.0%} of patches") for k, share in often]
    parts = {f"chosen most often in its {len(mine)} images": chosen}
    if len(found.model.head.correlation):
        weights = found.model.head.correlation[scale - 1].weight[prototype].detach()  # (K_s,)
        best = weights.argsort(descending=True, stable=True)[:NUM_PARTS].tolist()
        head = f"given the greatest weight by the correlation learner $g_{scale}$"
        parts[head] = [(k, f"weight {weights[k]:.2f}") for k in best]
    ratios = [_IMAGE_ROW, *(len(rows) + 0.25 for rows in parts.values())]
    with matplotlib.rc_context({**RC, "axes.grid": False, "svg.fonttype": "none"}):
        figure = titled_figure(
            (NUM_EXAMPLES + 1) * _EXAMPLE_INCHES,
            (sum(ratios) + 0.5) * (_EXAMPLE_INCHES + 0.1),
            f"{found.title}: prototype {prototype} of the image "
            f"({len(mine) / len(found.names):.0%} of {len(found.names):,} images) and its parts "
            f"at level {scale}",
        )
        upper, *rest = figure.subfigures(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        grid = upper.subplots(1, NUM_IMAGES, squeeze=False)[0]
        for place in grid:
            place.axis("off")
        for place, row in zip(grid, shown, strict=False):
            _draw_image(place, found, row, scale, colours)
        for part, (head, rows) in zip(rest, parts.items(), strict=True):
            part.suptitle(head, x=0.01, ha="left", fontsize=10, color=INK)
            grid = part.subplots(len(rows), NUM_EXAMPLES + 1, squeeze=False)
            for (k, said), places in zip(rows, grid, strict=True):
                _draw_examples(places, found, scale, k, said, colours.get(k, MUTED))
    return figure


def _draw_image(
    axes: Axes, found: Assignments, row: int, scale: int, colours: dict[int, str]
) -> None:
    axes.imshow(found.image(row))
    choices = found.choices(scale)[row].tolist()
    # Those with a colour last, above their neighbours.
    for crop in sorted(range(len(choices)), key=lambda crop: choices[crop] in colours):
        colour = colours.get(choices[crop])
        box = found.boxes[scale][row, crop]
        outline(axes, box, colour or "white", width=2.2 if colour else 0.6)


def _draw_examples(
    places: "list[Axes]", found: Assignments, scale: int, prototype: int, said: str, colour: str
) -> None:
    for place in places:
        place.set(xticks=[], yticks=[])
        place.spines[:].set_visible(False)
    told = places[0].text(0.08, 0.5, f"{scale}.{prototype}\n{said}", va="center")
    told.set_in_layout(False)  # all rows have columns of one width
    places[0].axvline(0, color=colour, linewidth=6)
    for place, (row, crop) in zip(
        places[1:], found.nearest(scale, prototype, NUM_EXAMPLES), strict=False
    ):
        place.imshow(found.crop(row, scale, crop))
