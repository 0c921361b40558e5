"""Which images of a folder can be trained on, found before training by opening some of them."""

from dataclasses import dataclass
from statistics import median

import numpy as np

from ..console.wording import counted, on_one_line
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.bad_images import most_bad
from ..errors import UserValueError
from .views import SIZE_STEP_PX

MIN_IMAGES = 8
"""Usable images that a training needs: four steps an epoch of two images, the smallest batch."""

FEW_IMAGES = 1000
"""Usable images below which a warning says what to expect."""

MIN_SIDE_PX = 2 * SIZE_STEP_PX
"""The shorter side of a usable image, in px: no recipe has smaller views."""

_SAMPLE = 64
_MOST_OPENED = 1000
_MOST_NAMED = 5


@dataclass(frozen=True)
class UsableImages:
    """What opening some images has shown.

    Attributes:
        num_images: All images.
        num_opened: Those looked at, evenly spread.
        num_unreadable: Of them, those that cannot be decoded.
        num_small: Of them, those with a side below ``MIN_SIDE_PX``.
        short_side_px: Median shorter side of the others.
        max_bad_share: Share of unreadable images that stops the training.
    """

    num_images: int
    num_opened: int
    num_unreadable: int
    num_small: int
    short_side_px: int
    max_bad_share: float = 0.01

    @property
    def num_usable(self) -> int:
        """Usable images: exact if all were opened, or else by their share among the opened."""
        usable = self.num_opened - self.num_unreadable - self.num_small
        return self.num_images * usable // self.num_opened

    def warnings(self, *, from_random: bool = True) -> list[str]:
        """Return what the user should know before the run.

        Args:
            from_random: Whether the backbone starts from random weights.
        """
        lines = []
        if self.num_unreadable or self.num_small:
            lines.append(
                f"of {self.num_opened} images looked at {self.num_unreadable} cannot be read and "
                f"{self.num_small} have a side below {MIN_SIDE_PX} px, the smallest view: remove "
                f"them. Above {self.max_bad_share:.3g} of all (max_bad_share) unreadable ones "
                "stop the training."
            )
        if self.num_usable < FEW_IMAGES and from_random:
            lines.append(
                f"{self.num_usable:,} usable images are few: expect a small gain over random "
                "weights at best. More images help, and need no labels; without them, start from "
                "a trained backbone (weights: supervised, or a file)."
            )
        return lines


def find_usable_images(images: UnlabeledImages, source: str) -> UsableImages:
    """Open a sample of the images, and more of them until enough are found to be usable.

    Args:
        images: The data set; its pipeline is not run.
        source: What to call it in an error.

    Raises:
        ValueError: Fewer than ``MIN_IMAGES`` usable images, after 1,000 if there are more; or so
            many unreadable ones that they would stop the training.
    """
    count = len(images)
    spread = np.linspace(0, count - 1, min(count, _MOST_OPENED)).astype(int)
    # An evenly spread sample first, then the rest.
    sample = spread[np.linspace(0, len(spread) - 1, min(len(spread), _SAMPLE)).astype(int)]
    order = [*sample.tolist(), *sorted(set(spread.tolist()) - set(sample.tolist()))]
    sides: list[int] = []
    unreadable: list[str] = []
    num_opened = num_small = 0
    for index in order:
        if num_opened >= _SAMPLE and len(sides) >= MIN_IMAGES:
            break
        num_opened += 1
        try:
            side = min(images.load_image(index).shape[1:])
        except ImageReadError as error:
            unreadable.append(str(error.path))  # training lists it in bad_images.txt
            continue
        if side < MIN_SIDE_PX:
            num_small += 1
        else:
            sides.append(side)
    if len(sides) < MIN_IMAGES:
        looked = "" if num_opened == count else f"; {num_opened:,} were looked at"
        raise UserValueError(
            f"pre-training needs at least {MIN_IMAGES} usable images, but {source} has "
            f"{len(sides)}: of {counted(count, 'image')} {len(unreadable)} cannot be read and "
            f"{num_small} have a side below {MIN_SIDE_PX} px, the smallest a view can have"
            f"{looked}. Add images (with fewer than {FEW_IMAGES:,} little can be learned), or "
            "correct the path."
        )
    if len(unreadable) > most_bad(count, images.max_bad_share):
        named = [on_one_line(path) for path in unreadable[:_MOST_NAMED]]
        raise UserValueError(
            f"at most {images.max_bad_share:.3g} of the images may be unreadable, but "
            f"{len(unreadable)} of {count:,} are ({', '.join(named)}"
            f"{', ...' if len(unreadable) > _MOST_NAMED else ''}); replace or remove them, or "
            "raise max_bad_share."
        )
    return UsableImages(
        count, num_opened, len(unreadable), num_small, int(median(sides)), images.max_bad_share
    )
