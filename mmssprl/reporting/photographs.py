"""What the trained backbone makes of some of its photographs.

Legend: N images of the sample, Q queries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.subset import choose_subset
from ..errors import called, message_for_user
from ..features.folder import embed
from ..features.frozen_backbone import frozen_backbone
from ..features.nearest_neighbors import nearest
from ..visualization.prototypes import draw_prototypes, run_images
from ..visualization.views import draw_views_of
from . import pictures
from .run import PretrainingRun

SAMPLE, PROTOTYPE_SAMPLE = 200, 60
"""Images that are looked at, of more ones a fixed random part: a fraction of an epoch's work. For
the prototypes each is seen with all its patches."""
_QUERIES, _NEIGHBORS = 5, 5
_VIEWED = 2


class Photograph(NamedTuple):
    """A picture of an image; ``cosine`` is empty but for one that is near another."""

    uri: str
    name: str
    cosine: str = ""


@dataclass
class Photographs:
    """The parts of a page that need images.

    Attributes:
        num_images: Of the run.
        first: Path of one of them; '' if it is no file of its own.
        views: Images, each with a picture of its views.
        neighbors: Rows of an image and those nearest to it.
        prototypes: A picture; '' where there is none.
        left_out: What could not be made, and why.
    """

    num_images: int = 0
    first: str = ""
    views: list[Photograph] = field(default_factory=list)
    neighbors: list[list[Photograph]] = field(default_factory=list)
    prototypes: str = ""
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @property
    def of_neighbors(self) -> str:
        """Among which images the neighbours were searched."""
        return _part(SAMPLE, self.num_images)

    @property
    def of_prototypes(self) -> str:
        """Among which images those of the prototypes were searched."""
        return _part(PROTOTYPE_SAMPLE, self.num_images)


def look_at_photographs(
    run: PretrainingRun, images: str | Path | None = None, *, has_prototypes: bool
) -> Photographs:
    """Draw what can be drawn; what a user would have to mend first is named in its place.

    Args:
        run: Its newest weights are taken.
        images: Folder or tar file; None takes those that the run trains on.
        has_prototypes: Whether the method has some.

    Raises:
        FileNotFoundError, ValueError: ``images`` are given and cannot be found.
    """
    found = Photographs()

    def attempt(what: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except Exception as error:
            message = message_for_user(error)
            if message is None:
                raise
            found.left_out.append((what, message))

    parts = "views, nearest photographs" + " and prototypes" * has_prototypes
    if images is None:
        everything = attempt(parts, lambda: run_images(run.cfg))
    else:
        with called("--images"):
            everything = run_images(run.cfg, images)
    if everything is None:
        found.left_out.append(("if they have moved", "`report --images DIR` takes others."))
        return found
    found.num_images = len(everything)
    sample = _sample(everything, SAMPLE)
    path = sample.get_data_info(0)["img_path"]
    found.first = path if Path(path).is_file() else ""
    found.views = attempt("views", lambda: _views(run, sample)) or []
    if run.weights is None:
        reason = f"{run.work_dir} holds no checkpoint yet; they come with the first one."
        found.left_out.append((parts.removeprefix("views, "), reason))
        return found
    found.neighbors = attempt("nearest photographs", lambda: _neighbors(run, sample)) or []
    if has_prototypes:
        found.prototypes = attempt("prototypes", lambda: _prototypes(run, sample)) or ""
    return found


def _part(most: int, num_images: int) -> str:
    if num_images <= most:
        return f"all {num_images:,} images"
    return f"{most:,} of the {num_images:,} images, drawn by a fixed seed"


def _sample(images: UnlabeledImages, most: int) -> UnlabeledImages:
    """Return so many images at most."""
    return images.get_subset(choose_subset(range(len(images)), min(1.0, most / len(images))))


def _views(run: PretrainingRun, sample: UnlabeledImages) -> list[Photograph]:
    views: list[Photograph] = []
    for index, name in enumerate(sample.names):
        if len(views) == _VIEWED:
            break
        try:
            pixels = sample.load_image(index)
        except ImageReadError:
            continue
        views.append(Photograph(pictures.photographs(draw_views_of(run.cfg, pixels)), name))
    return views


def _neighbors(run: PretrainingRun, sample: UnlabeledImages) -> list[list[Photograph]]:
    model = frozen_backbone(str(run.weights), run.cfg)
    found = embed(model, sample, progress=False)
    if len(found) < 2:
        return []
    places = {name: index for index, name in enumerate(sample.names)}
    num = len(found)
    queries = torch.arange(0, num, max(1, num // _QUERIES))[:_QUERIES]  # int64 (Q,)
    features = torch.from_numpy(found.features)
    indices, cosines = nearest(features[queries], features, _NEIGHBORS, excluded=queries.numpy())

    def show(index: int, cosine: str = "") -> Photograph:
        name = found.names[index]
        return Photograph(pictures.thumbnail(sample.load_image(places[name])), name, cosine)

    return [
        [show(query), *(show(i, f"{c:.3f}") for i, c in zip(*row, strict=True))]
        for query, *row in zip(queries.tolist(), indices.tolist(), cosines.tolist(), strict=True)
    ]


def _prototypes(run: PretrainingRun, sample: UnlabeledImages) -> str:
    smaller = _sample(sample, PROTOTYPE_SAMPLE)
    return pictures.photographs(draw_prototypes(run.work_dir, smaller, progress=False))
