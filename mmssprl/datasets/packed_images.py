"""Read images from one packed file, an LMDB that ``python -m mmssprl pack`` writes.

The file holds the bytes of the original image files, unchanged, by their number in the data set:

* ``image0000000000``, ...: 4 bytes of checksum (zlib.crc32, little-endian), then the image file;
* ``HEADER``: JSON, see ``Header``; ``NAMES`` and ``ENDS``: the two arrays of ``ImageNames``;
* ``COMPLETE``: empty, written when all images are there and were read again.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import lmdb
import numpy as np

from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.image_reading import ImageReadError

from ..errors import UserValueError

FORMAT = "mmssprl packed images 1"
HEADER, NAMES, ENDS, COMPLETE = b"HEADER", b"NAMES", b"ENDS", b"COMPLETE"
"""Keys beside the images; all sort before theirs, so that images are appended."""

CHECKSUM = struct.Struct("<I")
_LMDB_MAGIC = (16, 0xBEEFC0DE)
"""Where an LMDB file has which number, in the machine's byte order."""

_environments: dict[str, tuple[int, lmdb.Environment]] = {}
"""The open files of this process by path, with the process that opened them."""


@dataclass(frozen=True)
class Header:
    """What a packed file says of itself.

    Args:
        num_images: How many images it holds once it is complete.
        names_digest: SHA-256 of the names.
        source_digest: SHA-256 of the folder that they came from and the names.
        format: ``FORMAT``.
    """

    num_images: int
    names_digest: str
    source_digest: str
    format: str = FORMAT


def image_key(index: int) -> bytes:
    """Return the key of image ``index``."""
    return b"image%010d" % index


def checked_image(value: bytes | memoryview) -> bytes | memoryview | None:
    """Return the image file in a stored value, or None if its checksum tells of damage."""
    if len(value) < CHECKSUM.size:
        return None
    data = value[CHECKSUM.size :]
    return data if zlib.crc32(data) == CHECKSUM.unpack_from(value)[0] else None


def is_packed(path: str) -> bool:
    """Tell whether a path is an LMDB file, whatever its name."""
    offset, magic = _LMDB_MAGIC
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(4) == struct.pack("=I", magic)
    except OSError:
        return False


class PackedImages:
    """The images of one packed file, or some of them.

    The file is opened when the first image is read, in each process anew: an open LMDB must not
    cross a fork. It is only read, without locks, so any number of workers and ranks share what the
    system caches of it.

    Args:
        path: The file.
        indices: int64, the numbers in the file of the images; None for all.

    Raises:
        ValueError: It is no packed file, cut off, or not complete.
    """

    def __init__(self, path: str, indices: np.ndarray | None = None) -> None:
        self.path = os.path.realpath(path)  # as LMDB opens a file once, however it is called
        self.indices = indices
        if indices is None:
            require_complete(self.path)

    def names(self) -> ImageNames:
        """Read the names of all images of the file."""
        with open_packed(self.path) as env, env.begin(buffers=True) as txn:
            return read_names(txn)

    def read(self, index: int, path: str) -> np.ndarray:
        """Read one image file.

        Args:
            index: Number of the image among those of this object, from 0.
            path: What to call it in an error.

        Returns:
            uint8, the bytes of the file, not decoded.

        Raises:
            ImageReadError: The packed file is damaged.
        """
        number = index if self.indices is None else int(self.indices[index])
        try:
            with _environment(self.path).begin(buffers=True) as txn:
                value = txn.get(image_key(number))
                if value is None:
                    reason = f"{self.path} does not hold it"
                else:
                    data = checked_image(value)
                    if data is not None:
                        return np.frombuffer(data, np.uint8).copy()
                    reason = f"its bytes in {self.path} are not those that were packed"
        except lmdb.Error as error:
            reason = f"it cannot be read from {self.path} ({error})"
        raise ImageReadError(path, reason)

    def subset(self, indices: np.ndarray) -> "PackedImages":
        """Return some of the images; ``indices`` (int64) from 0."""
        return PackedImages(self.path, indices if self.indices is None else self.indices[indices])


@contextmanager
def open_packed(path: str) -> Iterator[lmdb.Environment]:
    """Open a packed file for one reading pass, and close it again.

    Raises:
        ValueError: It is no LMDB file, cut off, or holds something else.
    """
    _close(path)  # LMDB opens a file once in a process; whoever had it opens it again
    try:
        env = lmdb.open(path, subdir=False, readonly=True, lock=False)
    except lmdb.Error as error:
        raise UserValueError(
            f"{path}: must be a file of `python -m mmssprl pack`, but it cannot be opened "
            f"({error}); pack the images again."
        ) from error
    with env:
        # Beyond the end of the file the mapped memory cannot be read: the process would be killed.
        size, expected = os.path.getsize(path), (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        if size < expected:
            raise UserValueError(
                f"{path}: must have {expected:,} bytes, but has {size:,}: it is cut off; copy it "
                "again, or pack the images again."
            )
        with env.begin() as txn:
            read_header(txn, path)
        yield env


def read_header(txn: lmdb.Transaction, path: str) -> Header:
    """Return what the file says of itself.

    Raises:
        ValueError: It holds something else.
    """
    text = txn.get(HEADER)
    try:
        header = Header(**json.loads(bytes(text or b"")))
        if header.format == FORMAT:
            return header
        found = f"format {header.format!r}"
    except (ValueError, TypeError):
        found = "something else"
    raise UserValueError(
        f"{path}: must be a file of `python -m mmssprl pack`, format {FORMAT!r}, but holds "
        f"{found}; give another file."
    )


def read_names(txn: lmdb.Transaction) -> ImageNames:
    """Return a copy of the names."""
    return ImageNames(
        np.frombuffer(txn.get(NAMES, b""), np.uint8).copy(),
        np.frombuffer(txn.get(ENDS, b""), "<i8").astype(np.int64),
    )


def num_stored(txn: lmdb.Transaction) -> int:
    """Return how many images the file holds so far."""
    cursor = txn.cursor()
    last = bytes(cursor.key()) if cursor.last() else b""
    return int(last.removeprefix(b"image")) + 1 if last.startswith(b"image") else 0


def require_complete(path: str) -> None:
    """Check that a packed file holds all its images.

    Raises:
        ValueError: It does not, or it is no packed file.
    """
    with open_packed(path) as env, env.begin() as txn:
        if txn.get(COMPLETE) is None:
            raise UserValueError(
                f"{path}: must be packed completely, but holds {num_stored(txn):,} of "
                f"{read_header(txn, path).num_images:,} images or was not checked yet; run "
                "`python -m mmssprl pack` again as before, it goes on."
            )


def _environment(path: str) -> lmdb.Environment:
    owner, env = _environments.get(path, (0, None))
    if env is None or owner != os.getpid():
        _close(path)
        # With the system's reading ahead. Without, a disk serves an image page by page: images of
        # 170 kB that were not in memory took five times as long, and seven times the CPU time.
        env = lmdb.open(path, subdir=False, readonly=True, lock=False, max_spare_txns=1)
        _environments[path] = (os.getpid(), env)
    return env


def _close(path: str) -> None:
    # One that was open before a fork too: without locks this closes this process's side only.
    _, env = _environments.pop(path, (0, None))
    if env is not None:
        env.close()
