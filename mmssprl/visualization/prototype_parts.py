"""One prototype of the image and the prototypes of its images' patches (Fig. 3 of the paper).

Legend: K_s prototypes of scale s, px side of a patch.
"""

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import CATEGORIES, INK, MUTED, RC, titled_figure
from ..errors import UserValueError
from .assignments import Assignments, check_scale
from .views import outline

NUM_IMAGES, NUM_PARTS, NUM_EXAMPLES = 5, 3, 8
"""Images of the prototype; patch prototypes by each order; examples of each of these."""
_INCHES = 1.3
"""Side of an example."""
_IMAGE_ROW = 1.9
"""Height of the row of images / side of an example."""


def draw_prototype_parts(found: Assignments, prototype: int, *, scale: int = 1) -> Figure:
    """Draw one image prototype: its images, and what the patches in them choose.

    On the images lie the patches of a scale. Those that choose one of the three patch prototypes
    that are chosen most often have its colour. A row each shows examples of these three, and of the
    three to which the correlation learner g_s gives the greatest weight for the image prototype.

    Raises:
        ValueError: A scale or a prototype that the run does not have, or one that no image chooses.
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
            (NUM_EXAMPLES + 1) * _INCHES,
            (sum(ratios) + 0.5) * (_INCHES + 0.1),
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
