"""A prototype with the prototypes of its images' patches (Fig. 3 of the paper)."""

from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...drawing.sheets import Tile, draw_grid, outlined, picture
from ...drawing.style import CATEGORIES, INK
from ..assignments import Assignments

NUM_IMAGES = 8
NUM_PARTS = 3  # patch prototypes by each order
NUM_EXAMPLES = 8  # of each patch prototype
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def draw_prototype_parts(found: Assignments, prototype: int, *, scale: int = 1) -> Figure:
    """Draw an image prototype that images choose: its images, and what the patches in them choose.

    The patches of a scale are outlined on the images, in colour where they choose one of the three
    most frequent patch prototypes. A row each shows examples of these three, and of the three with
    the greatest weights in the correlation learner g_s for the image prototype.
    """
    mine = (found.choices(0)[:, 0] == prototype).nonzero()[:, 0].tolist()
    often = found.most_chosen(scale, NUM_PARTS, mine)
    colours = {k: colour for (k, _), colour in zip(often, CATEGORIES, strict=False)}
    chosen = [(k, f"chosen by {100 * share:.0f} % of the patches") for k, share in often]
    if len(found.model.head.correlation):
        weights = found.model.head.correlation[scale - 1].weight[prototype].detach()  # (K_s,)
        best = weights.argsort(descending=True, stable=True)[:NUM_PARTS].tolist()
        learner = f"g{scale}".translate(_SUBSCRIPTS)
        chosen += [(k, f"weight {weights[k]:.2f} in {learner}") for k in best]

    shown = found.nearest(0, prototype, min(NUM_IMAGES, len(mine)))
    first = [Tile(_outlined(found, row, scale, colours)) for row, _ in shown]
    first[0] = first[0]._replace(words="its images, in the colours below")
    rows = [first]
    for k, words in chosen:
        colour = colours.get(k, INK)
        rows.append(found.tiles(scale, k, NUM_EXAMPLES, f"{k}: {words}", colour))
    share = len(mine) / len(found.indices)
    return draw_grid(
        rows,
        f"{found.title}: prototype {prototype} of the image ({100 * share:.0f} % of "
        f"{len(found.indices):,} images) and its parts at level {scale}",
    )


def _outlined(found: Assignments, row: int, scale: int, colours: dict[int, str]) -> NDArray:
    """Return an image with outlined patches, coloured ones above the others."""
    choices = found.choices(scale)[row].tolist()
    boxes = found.boxes[scale][row]
    drawn = outlined(picture(found.image(row)), boxes, "white", 1)
    for k, colour in colours.items():
        own = [box for choice, box in zip(choices, boxes, strict=True) if choice == k]
        drawn = outlined(drawn, own, colour)
    return drawn
