"""Which images of a folder can be trained on, found before training by opening some of them."""

from statistics import median

import numpy as np

from ..console.wording import counted, on_one_line
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.bad_images import most_bad
from ..errors import UserValueError
from .recipe import SIZE_STEP_PX

MIN_IMAGES = 8
"""Usable images that a training needs: four steps an epoch of two images, the smallest batch."""

FEW_IMAGES = 1000
"""Usable images below which a warning says what to expect."""

MIN_SIDE_PX = 2 * SIZE_STEP_PX
"""The shorter side of a usable image, in px: no recipe has smaller views."""

_SAMPLE = 64
_MOST_OPENED = 1000


def find_usable_images(
    images: UnlabeledImages, source: str, *, from_random: bool = True
) -> tuple[int, list[str]]:
    """Open a sample of the images, and more of them until enough are usable, at most 1,000.

    Fewer than ``MIN_IMAGES`` usable ones are refused, and so many unreadable ones that they would
    stop the training. Returns the median of the usable ones' shorter sides, and what the user
    should know before a run from random weights, or from others.
    """
    count = len(images)
    spread = np.linspace(0, count - 1, min(count, _MOST_OPENED)).astype(int)
    # An evenly spread sample first, then the rest.
    sample = spread[np.linspace(0, len(spread) - 1, min(len(spread), _SAMPLE)).astype(int)]
    sides: list[int] = []
    unreadable: list[str] = []
    num_opened = num_small = 0
    for index in dict.fromkeys([*sample.tolist(), *spread.tolist()]):
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
    looked = (
        f"of {counted(num_opened, 'image')} looked at {len(unreadable)} cannot be read and "
        f"{num_small} have a side below {MIN_SIDE_PX} px, the smallest view"
    )
    if len(sides) < MIN_IMAGES:
        raise UserValueError(
            f"pre-training needs at least {MIN_IMAGES} usable images, but {source} has "
            f"{len(sides)}: {looked}; add images, or correct the path."
        )
    share = images.max_bad_share
    if len(unreadable) > most_bad(count, share):
        raise UserValueError(
            f"at most {share:.3g} of the images may be unreadable, but {len(unreadable)} of "
            f"{count:,} are, such as {on_one_line(unreadable[0])}; replace or remove them, or "
            "raise max_bad_share."
        )
    warnings = []
    if unreadable or num_small:
        warnings.append(
            f"{looked}: remove them. Above {share:.3g} of all (max_bad_share) unreadable ones stop "
            "the training."
        )
    num_usable = count * len(sides) // num_opened  # exact if all were opened
    if num_usable < FEW_IMAGES and from_random:
        warnings.append(
            f"{num_usable:,} usable images are few: expect a small gain over random weights at "
            "best. More images help, and need no labels; without them, start from a trained "
            "backbone (weights: supervised, or a file)."
        )
    return int(median(sides)), warnings
