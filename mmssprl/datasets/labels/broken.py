"""Decode labelled images before a training, so that broken ones do not end it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ...console.progress import watch
from ...console.wording import on_one_line
from ...errors import UserValueError
from ...system.environment import usable_cores
from ..image_reading import ImageReadError, read_image

_MOST_THREADS = 8
"""Largest number of images that are decoded at a time; each may take half a gigabyte."""
_MOST_NAMED = 8


def refuse_broken(paths: Sequence[str]) -> None:
    """Raise ValueError with the names of images that cannot be decoded completely."""
    with ThreadPoolExecutor(min(_MOST_THREADS, usable_cores())) as pool:
        tried = watch(pool.map(_error_of, paths), "decoding images", total=len(paths))
        broken = [error for error in tried if error is not None]

    if len(broken) == 1:
        raise broken[0]
    if broken:
        named = ", ".join(str(error.path) for error in broken[:_MOST_NAMED])
        more = ", ..." if len(broken) > _MOST_NAMED else ""
        text = f"{len(broken)} of {len(paths)} images are broken ({named}{more}). {broken[0]}"
        raise UserValueError(on_one_line(text))


def _error_of(path: str) -> ImageReadError | None:
    try:
        read_image(path)
    except ImageReadError as error:
        return error
    return None
