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
    broken = []
    pool = ThreadPoolExecutor(min(_MOST_THREADS, usable_cores()))
    try:
        for error in watch(pool.map(_error_of, paths), "decoding images", total=len(paths)):
            if error is not None:
                broken.append(error)
    finally:
        pool.shutdown(cancel_futures=True)

    if len(broken) == 1:
        raise broken[0]
    if broken:
        first, *others = broken
        named = ", ".join(str(error.path) for error in others[:_MOST_NAMED])
        more = ", ..." if len(others) > _MOST_NAMED else ""
        text = (
            f"{len(broken)} of {len(paths)} images are broken: {first.path} ({first.reason}), "
            f"{named}{more}; replace or remove the files."
        )
        raise UserValueError(on_one_line(text))


def _error_of(path: str) -> ImageReadError | None:
    try:
        read_image(path)
    except ImageReadError as error:
        return error
    return None
