"""Look at images before a run: whether enough can be trained on, and what is odd about them."""

import time
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from ..console.progress import watch
from ..console.wording import counted, on_one_line
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.bad_images import most_bad
from ..datasets.image_reading import DARK, MOST_DARK, dark_warning
from ..datasets.labels.drawn import MOST_DRAWN, are_drawn
from ..datasets.labels.masks import has_name_of_label_image, label_images_in
from ..errors import UserValueError
from .choose import SIZE_STEP_PX

MIN_IMAGES = 8  # usable: four steps per epoch with the smallest batch of two
FEW_IMAGES = 1000  # fewer usable images give a warning
MIN_SIDE_PX = 2 * SIZE_STEP_PX  # shorter side of a usable image; no recipe has smaller views
BAD_SHARE = "train_dataloader.dataset.max_bad_share"
_MOST_OPENED = 2000
_LOOK_S = 20.0
_SAMPLE = 64


def find_usable_images(
    images: UnlabeledImages, source: str, *, from_random: bool = True
) -> tuple[int, list[str]]:
    """Open up to 2,000 images, spread over all, for up to 20 s or until enough are usable.

    Returns the median of the usable images' shorter sides, and warnings. Raises ValueError if too
    few are usable, or so many are unreadable that training would stop.
    """
    count = len(images)
    end = time.monotonic() + _LOOK_S
    spread = _spread(count)
    # A sample of the whole comes first, in case time runs out.
    order = dict.fromkeys([*spread[:: max(1, len(spread) // _SAMPLE)], *spread])
    sides: list[int] = []
    unreadable: list[str] = []
    dark: list[str] = []
    for num_opened, index in enumerate(watch(order, "looking at images")):
        usable = [side for side in sides if side >= MIN_SIDE_PX]
        if num_opened >= _SAMPLE and len(usable) >= MIN_IMAGES and time.monotonic() >= end:
            break
        try:
            image = images.load_image(index)
            sides.append(min(image.shape[1:]))
            if not images.pixels and image.max() <= DARK:
                dark.append(images.get_data_info(index)["img_path"])
        except ImageReadError as error:
            unreadable.append(str(error.path))  # the training lists it in bad_images.txt

    num_opened = len(sides) + len(unreadable)
    usable = [side for side in sides if side >= MIN_SIDE_PX]
    looked = (
        f"of {counted(num_opened, 'image')} looked at {len(unreadable)} cannot be read and "
        f"{len(sides) - len(usable)} have a side below {MIN_SIDE_PX} px, the smallest view"
    )
    if len(usable) < MIN_IMAGES:
        raise UserValueError(
            f"pre-training needs at least {MIN_IMAGES} usable images, but {source} has "
            f"{len(usable)}: {looked}. Add images, or correct the path (channels reads .npy, "
            "and TIFFs other than 8-bit RGB)."
        )
    _refuse_unreadable(images, unreadable)

    warnings = [f"{looked}: remove them."] if len(usable) < num_opened else []
    warnings += _unlike_photographs(images, dark, num_opened)
    num_usable = count * len(usable) // num_opened  # exact if all were opened
    if num_usable < FEW_IMAGES and from_random:
        warnings.append(
            f"{num_usable:,} usable images are few: expect a small gain over random weights. Add "
            "images, which need no labels, or give weights or teacher: supervised, or a file."
        )
    return int(median(usable[:_SAMPLE])), warnings  # the sample does not depend on the time


def _spread(count: int) -> list[int]:
    """Return up to 2,000 indices, spread over all."""
    return np.linspace(0, count - 1, min(count, _MOST_OPENED)).astype(int).tolist()


def _unlike_photographs(
    images: UnlabeledImages, dark: Sequence[str], num_opened: int
) -> Iterator[str]:
    """Yield warnings about images that are nearly black, or label images of others."""
    if len(dark) > MOST_DARK * num_opened:
        yield dark_warning(dark, num_opened)
    if drawn := _label_images(images):
        yield (
            f"{len(drawn)} of {len(images):,} images look like label images of others, for example "
            f"{drawn[0]}: they are trained on, too. Give the folder of the photographs."
        )


def _label_images(images: UnlabeledImages) -> list[str]:
    """Return the label images of others, by name; [] if they are few, or are photographs."""
    count = len(images)
    paths = [images.get_data_info(index)["img_path"] for index in _spread(count)]
    likely = [path for path in paths if has_name_of_label_image(path)]
    if len(likely) <= MOST_DRAWN * len(paths):  # the names of all images take seconds
        return []

    names = images.names
    found = label_images_in(names)
    if len(found) <= MOST_DRAWN * count:
        return []
    return found if are_drawn(found, lambda x: images.load_image(names.index(x))) else []


def _refuse_unreadable(images: UnlabeledImages, unreadable: Sequence[str]) -> None:
    """Raise ValueError if so many images cannot be read that training would stop."""
    if len(unreadable) > most_bad(len(images), images.max_bad_share):
        raise UserValueError(
            f"at most {images.max_bad_share:.3g} of the images may be unreadable, but "
            f"{len(unreadable)} of {len(images):,} are, such as {on_one_line(unreadable[0])}; "
            f"replace or remove them, or raise {BAD_SHARE} (cfg_options)."
        )
