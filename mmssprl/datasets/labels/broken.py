"""Decode labelled images before a training, so that broken ones do not end it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ...console.progress import watch
from ...console.wording import on_one_line
from ...errors import UserValueError
from ...system.environment import usable_cores
from ..image_reading import DARK, MOST_DARK, ImageReadError, dark_warning, read_image

_MOST_THREADS = 8
"""Largest number of images that are decoded at a time; each may take half a gigabyte."""
_MOST_NAMED = 8


def refuse_broken(paths: Sequence[str], warnings: list[str]) -> None:
    """Raise ValueError with the names of images that cannot be decoded completely.

    Many nearly black images are a warning.
    """
    with ThreadPoolExecutor(min(_MOST_THREADS, usable_cores())) as pool:
        seen = [*watch(pool.map(_look_at, paths), "decoding images", total=len(paths))]
    broken = [each for each in seen if isinstance(each, ImageReadError)]

    if len(broken) == 1:
        raise broken[0]
    if broken:
        named = ", ".join(str(error.path) for error in broken[:_MOST_NAMED])
        more = ", ..." if len(broken) > _MOST_NAMED else ""
        text = f"{len(broken)} of {len(paths)} images are broken ({named}{more}). {broken[0]}"
        raise UserValueError(on_one_line(text))

    dark = [path for path, is_dark in zip(paths, seen, strict=True) if is_dark]
    if len(dark) > MOST_DARK * len(paths):
        warnings.append(dark_warning(dark, len(paths)))


def _look_at(path: str) -> ImageReadError | bool:
    """Return the error of an image, or whether it is nearly black."""
    try:
        return bool(read_image(path).max() <= DARK)
    except ImageReadError as error:
        return error
