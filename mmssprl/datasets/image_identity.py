"""Whether images are the ones that something was made from, without reading all of them again.

Legend: N images. A *stamp* of an image is its size (bytes) and the times (ns) at which its file was
last modified and changed; its *identity* is the stamp and two words of a digest of its bytes.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..console.progress import watch
from .image_reading import ImageReadError

IDENTITY = 5
"""Numbers of an identity."""
_TIMES = slice(1, 3)
_DIGEST = slice(3, 5)
_DIGEST_BYTES = 16


def stamp_of(path: str | Path) -> tuple[int, int, int]:
    """Return the stamp of a file; the size of a missing one is -1.

    Tools that edit an image may restore its time of modification, and the files of an archive may
    all have the same. The time of change, of a file's name too, cannot be set.
    """
    try:
        status = os.stat(path)
    except OSError:
        return -1, 0, 0
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def stamps_of(stamp: Callable[[int], tuple[int, int, int]], num: int) -> np.ndarray:
    """Return the stamps, int64 (N, 3), of the images 0 to N - 1."""
    found = (stamp(index) for index in watch(range(num), "looking for changed images"))
    return np.fromiter(found, np.dtype((np.int64, 3)), num)


def digest_of(data: np.ndarray) -> bytes:
    """Return the digest of the bytes (N,) uint8 of a file."""
    return hashlib.blake2b(data.data, digest_size=_DIGEST_BYTES).digest()


def identity_of(stamp: Iterable[int], data: np.ndarray | None) -> np.ndarray:
    """Return the identity, int64 (5,), of an image; without bytes its digest is zeros.

    Take the stamp before the bytes: if the file is written in between, its times will differ.
    """
    digest = bytes(_DIGEST_BYTES)
    if data is not None:
        digest = digest_of(data)
    return np.array([*stamp, *np.frombuffer(digest, np.int64)])


def find_changed(
    kept: np.ndarray, stamps: np.ndarray, read: Callable[[int], np.ndarray]
) -> list[int]:
    """Return the rows of ``kept`` with images that have other bytes now; it gets their new times.

    Bytes are read only if a time differs, as in a copied folder, or if they could not be read
    before: permissions or a network drive may have failed.

    Args:
        kept: Identities, int64 (N, 5).
        stamps: The stamps now, int64 (N, 3).
        read: Returns the bytes of the image in a row, or raises ImageReadError.
    """
    changed = kept[:, 0] != stamps[:, 0]
    is_open = (kept[:, _TIMES] != stamps[:, _TIMES]).any(axis=1) | ~kept[:, _DIGEST].any(axis=1)
    kept[:, _TIMES] = stamps[:, _TIMES]

    for row in watch(np.flatnonzero(is_open & ~changed).tolist(), "reading images again"):
        data = None
        with suppress(ImageReadError):
            data = read(row)
        changed[row] = (identity_of(stamps[row], data) != kept[row]).any()
    return np.flatnonzero(changed).tolist()
