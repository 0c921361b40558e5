"""Read the image files that are to be packed, several at a time."""

import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.packed_images import CHECKSUM

from ..errors import UserOSError, UserPermissionError

_READERS = 8
"""Threads that read image files: on a network drive the time goes into waiting for each."""

_BLOCK_IMAGES = 64
_BLOCK_NAMES = 1024


def refuse_unreadable(folder: str, names: ImageNames) -> None:
    """Find what can only be mended by another list, while no work is lost by that.

    Args:
        folder: What ``names`` are relative to.
        names: The images.

    Raises:
        PermissionError: Images may not be read, or are links to nothing.
    """
    paths = (os.path.join(folder, name) for name in names)
    blocks = iter(lambda: list(itertools.islice(paths, _BLOCK_NAMES)), [])
    unreadable: list[str] = []
    with ThreadPoolExecutor(_READERS) as readers:
        while some := list(itertools.islice(blocks, _READERS)):
            unreadable += itertools.chain.from_iterable(readers.map(_unreadable, some))
    if unreadable:
        raise UserPermissionError(
            f"{folder}: all images must be readable, but {len(unreadable):,} of {len(names):,} "
            f"are not, or are links to nothing, for example {unreadable[0]}; mend or remove them."
        )


def _unreadable(paths: list[str]) -> list[str]:
    return [path for path in paths if not os.access(path, os.R_OK)]


def read_values(paths: Iterable[str]) -> Iterator[bytes]:
    """Read files in their order, a few at once, and put their checksums in front.

    Raises:
        OSError: A file cannot be read.
    """
    paths = iter(paths)
    with ThreadPoolExecutor(_READERS) as readers:
        while block := list(itertools.islice(paths, _BLOCK_IMAGES)):
            yield from readers.map(_value, block)


def _value(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UserOSError(
            f"{path}: must be readable, but {error.strerror}; mend it and run the same command "
            "again, it goes on."
        ) from error
    return CHECKSUM.pack(zlib.crc32(data)) + data
