"""What prototypes stand for: the images and patches nearest to them, as in the paper's figure.

Legend: N images, M_s crops and K_s prototypes of scale s, px side of a crop.
"""

from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from ..console.style import INK, PYRAMIDS, RC, titled_figure
from ..datasets import UnlabeledImages
from .assignments import Assignments, load_run, run_images

NUM_PROTOTYPES, NUM_IMAGES, NUM_PATCHES = 6, 5, 3
"""Rows; images in each; prototypes of a level in each, with a patch."""
_CELL_INCHES = 1.05


class PrototypeRow(NamedTuple):
    """An image prototype, the share of the images that choose it, and the nearest of them.

    ``images`` are uint8 (n, px, px, 3). For each level, ``patches`` holds triples of a patch
    prototype's number, the share of these images' patches that choose it, and the patch nearest to
    it, uint8 (px, px, 3).
    """

    number: int
    share: float
    images: NDArray[np.uint8]
    patches: list[list[tuple[int, float, NDArray[np.uint8]]]]


def draw_prototypes(
    work_dir: str | Path,
    images: str | Path | UnlabeledImages | None = None,
    *,
    progress: bool = True,
) -> Figure:
    """Draw the image prototypes that most images choose, with their images and patches.

    An image or patch chooses the prototype with the greatest cosine. On the right stand, for each
    level, the patch prototypes that the patches of the row's images choose most often, each with
    the patch nearest to it.

    Args:
        work_dir: Folder of the run, with its config and newest training checkpoint.
        images: Folder of images or a tar file, or the images themselves; None takes those that the
            run trains on.
        progress: Whether to draw a progress bar, if there is a terminal.
    """
    model, cfg = load_run(work_dir)
    found = Assignments.of(model, run_images(cfg, images), progress=progress)
    return draw_prototypes_of(found, title=Path(cfg.filename).stem)


def draw_prototypes_of(found: Assignments, *, title: str) -> Figure:
    """As ``draw_prototypes``, of images that have been looked at."""
    rows = find_prototypes(found)
    num_levels = len(found.cosines) - 1
    columns = NUM_IMAGES + num_levels * NUM_PATCHES
    of_patches = ", and what these images' patches choose" if num_levels else ""
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = titled_figure(
            (columns + 1.2) * _CELL_INCHES,
            len(rows) * (_CELL_INCHES + 0.3) + 0.7,
            f"{title}: prototypes of the image and the images nearest to them{of_patches}",
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
    choice = found.choices(0)[:, 0]
    rows = []
    for k, share in _most_chosen(choice, NUM_PROTOTYPES):
        mine = (choice == k).nonzero()[:, 0]
        order = found.cosines[0][mine, 0, k].argsort(descending=True, stable=True)
        nearest = mine[order].tolist()
        rows.append(
            PrototypeRow(
                k,
                share,
                np.stack([found.crop(row, 0, 0) for row in nearest[:NUM_IMAGES]]),
                [
                    [(n, share, found.crop(row, s, m)) for n, share, row, m in _level(own, nearest)]
                    for s, own in enumerate(found.cosines[1:], 1)
                ],
            )
        )
    return rows


def _level(cosines: Tensor, images: list[int]) -> list[tuple[int, float, int, int]]:
    """Return number and share of the prototypes that patches of some images choose most often.

    With them come image and cell of the patch nearest to each. ``cosines`` are (N, M_s, K_s).
    """
    own = cosines[images]  # (n, M_s, K_s)
    found = []
    for k, share in _most_chosen(own.argmax(dim=2), NUM_PATCHES):
        image, cell = divmod(int(own[:, :, k].flatten().argmax()), own.shape[1])
        found.append((k, share, images[image], cell))
    return found


def _most_chosen(choice: Tensor, most: int) -> list[tuple[int, float]]:
    counts = choice.flatten().bincount()
    order = counts.argsort(descending=True, stable=True)[:most].tolist()
    return [(k, float(counts[k]) / choice.numel()) for k in order if counts[k]]


def _caption(axes: Axes, text: str, colour: str) -> None:
    axes.set_title(text, color=colour, fontsize=9, fontweight="normal", pad=2)
