"""One prototype of the image and the prototypes of its images' patches (Fig. 3 of the paper).

Legend: K_s prototypes of scale s, px side of a patch.
"""

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import CATEGORIES, INK, MUTED, RC, titled_figure
from ..datasets import UnlabeledImages
from ..errors import UserValueError
from .assignments import Assignments, check_scale, load_run, run_images
from .views import outline

NUM_IMAGES, NUM_PARTS, NUM_EXAMPLES = 5, 3, 8
"""Images of the prototype; patch prototypes by each order; examples of each of these."""
_INCHES = 1.3
"""Side of an example."""
_IMAGE_ROW = 1.9
"""Height of the row of images / side of an example."""


def draw_prototype_parts(
    work_dir: str | Path,
    prototype: int,
    *,
    scale: int = 1,
    images: str | Path | UnlabeledImages | None = None,
    progress: bool = True,
) -> Figure:
    """Draw one image prototype: its images, and what the patches in them choose.

    On the images lie the patches of a scale. Those that choose one of the three patch prototypes
    that are chosen most often have its colour. A row each shows examples of these three, and of the
    three to which the correlation learner g_s gives the greatest weight for the image prototype.

    Args:
        work_dir: Folder of the run, with its config and newest training checkpoint.
        prototype: Number of the image prototype, from 0.
        scale: Scale of the patches, from 1.
        images: As in ``draw_prototypes``.
        progress: Whether to draw a progress bar, if there is a terminal.

    Raises:
        ValueError: A scale or a prototype that the run does not have, or one that no image chooses.
    """
    model, cfg = load_run(work_dir)
    check_scale(model, scale, least=1)
    found = Assignments.of(model, run_images(cfg, images), progress=progress)
    return draw_parts_of(found, prototype, scale, title=Path(cfg.filename).stem)


def draw_parts_of(found: Assignments, prototype: int, scale: int, *, title: str) -> Figure:
    """As ``draw_prototype_parts``, of images that have been looked at."""
    counts = found.counts(0)
    if not 0 <= prototype < len(counts) or not counts[prototype]:
        used = counts.nonzero()[:, 0].tolist()
        raise UserValueError(
            f"prototype must be one that an image chooses, but got {prototype}; these are "
            f"{', '.join(map(str, used))}."
        )
    mine = (found.choices(0)[:, 0] == prototype).nonzero()[:, 0].tolist()
    shown = [row for row, _ in found.nearest(0, prototype, min(NUM_IMAGES, len(mine)))]
    often = found.choices(scale)[mine].flatten().bincount(minlength=found.cosines[scale].shape[2])
    parts = [
        (k, f"{often[k] / often.sum():.0%} of patches")
        for k in often.argsort(descending=True, stable=True)[:NUM_PARTS].tolist()
        if often[k]
    ]
    colours = {k: colour for (k, _), colour in zip(parts, CATEGORIES, strict=False)}
    learned = []
    if len(found.model.head.correlation):
        weights = found.model.head.correlation[scale - 1].weight[prototype].detach()  # (K_s,)
        best = weights.argsort(descending=True, stable=True)[:NUM_PARTS].tolist()
        learned = [(k, f"weight {weights[k]:.2f}") for k in best]
    heads = [f"chosen most often in its {len(mine)} images"] * bool(parts)
    num_rows = len(parts) + len(learned)
    with matplotlib.rc_context({**RC, "axes.grid": False, "svg.fonttype": "none"}):
        width = (NUM_EXAMPLES + 1) * _INCHES
        figure = titled_figure(
            width,
            _IMAGE_ROW * _INCHES + num_rows * (_INCHES + 0.1) + 0.9 + 0.3 * bool(learned),
            f"{title}: prototype {prototype} of the image "
            f"({len(mine) / len(found.names):.0%} of {len(found.names):,} images) and its parts "
            f"at level {scale}",
        )
        upper, *rest = figure.subfigures(
            1 + bool(parts) + bool(learned),
            1,
            squeeze=False,
            height_ratios=[_IMAGE_ROW, *(len(rows) + 0.25 for rows in (parts, learned) if rows)],
        )[:, 0]
        grid = upper.subplots(1, NUM_IMAGES, squeeze=False)[0]
        for place in grid:
            place.axis("off")
        for place, row in zip(grid, shown, strict=False):
            _draw_image(place, found, row, scale, colours)
        if learned:
            heads.append(f"given the greatest weight by the correlation learner $g_{scale}$")
        for part, rows, head in zip(rest, [r for r in (parts, learned) if r], heads, strict=True):
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
        for spine in place.spines.values():
            spine.set_visible(False)
    told = places[0].text(
        0.08, 0.5, f"{scale}.{prototype}\n{said}", va="center", fontsize=9, color=INK
    )
    told.set_in_layout(False)  # all rows have columns of one width
    places[0].axvline(0, color=colour, linewidth=6)
    for place, (row, crop) in zip(
        places[1:], found.nearest(scale, prototype, NUM_EXAMPLES), strict=False
    ):
        place.imshow(found.crop(row, scale, crop))
