"""Read images from uncompressed tar files without unpacking them."""

import os
import stat
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..console.progress import watch
from ..errors import UserValueError
from .image_index import IMAGE_SUFFIXES, is_hidden, kind_of, without_raw
from .image_reading import ImageReadError

_HEADER_BYTES = 4096
"""Buffer size while reading headers. The 128 KiB of newer Pythons would read whole images."""

_MAX_PADDING = 2**24
"""Largest number of zeros (bytes) at the end of a tar file. tar pads to 10 kB; an interrupted
download into reserved space ends in as many zeros as data are missing."""

_NOT_WHOLE = "linked or sparse"
"""Kind of the images without data in the tar file; tar's --dereference and --hard-dereference
store links as images."""


class _Tar(NamedTuple):
    """A tar file at the time when its headers were read."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> "_Tar":
        state = os.stat(path)
        if not stat.S_ISREG(state.st_mode):  # opening a pipe would wait forever
            raise UserValueError(f"{path}: a tar file must be a regular file; remove this one.")
        return cls(path, state.st_size, state.st_mtime_ns)


@dataclass(frozen=True)
class TarImages:
    """Images in tar files, by number."""

    tars: list[_Tar]
    places: np.ndarray
    """int64 (N, 3): for each image the index of its tar file, its offset and size in bytes."""

    def read(self, index: int, path: str) -> np.ndarray:
        """Return the encoded bytes of one image, uint8 (size,); errors call it ``path``."""
        number, offset, size = self.places[index].tolist()
        tar = self.tars[number]
        data = np.empty(size, np.uint8)
        try:
            with open(tar.path, "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                num_read = os.preadv(file.fileno(), [data.data], offset)
        except OSError as error:
            raise ImageReadError(path, f"{tar.path} cannot be read ({error.strerror})") from error
        if (state.st_size, state.st_mtime_ns) != tar[1:] or num_read < size:
            raise ImageReadError(path, f"{tar.path} has changed since its headers were read")
        return data


class Found(NamedTuple):
    """Content of tar files: sorted names, images in the same order, other files by kind."""

    names: list[str]
    images: TarImages
    skipped: Counter[str]


def index_tars(paths: Mapping[str, str]) -> Found:
    """Find the images in tar files, given as a dict from prefixes of names to paths.

    Images are regular files that are not hidden. Their names are the prefix and the member's name
    without "./". Of equal names the last one is used, as when tar unpacks them. Tar files that have
    not changed since the last call are not read again.
    """
    return _read_headers(tuple((prefix, _Tar.of(path)) for prefix, path in paths.items()))


@lru_cache(maxsize=1)  # `pretrain` checks the images before training
def _read_headers(tars: tuple[tuple[str, _Tar], ...]) -> Found:
    names: list[str] = []
    places: list[np.ndarray] = []
    skipped: Counter[str] = Counter()
    others: list[str] = []
    headers = watch(tars, "reading the headers of tar files")
    for number, (prefix, tar) in enumerate(headers):
        found = []
        for member in _members(tar):
            name = _visible_name(member.name)
            if not name.lower().endswith(IMAGE_SUFFIXES):
                if name and not member.isdir():
                    others.append(prefix + name)
            elif member.isreg() and not member.issparse():
                names.append(prefix + name)
                found.append((number, member.offset_data, member.size))
            elif not member.isdir():
                skipped[_NOT_WHOLE] += 1
        places.append(np.array(found, np.int64).reshape(-1, 3))
    skipped.update(map(kind_of, without_raw(others, names)))

    if not names:
        raise UserValueError(
            f"{tars[0][1].path}: a tar file must hold images ({', '.join(IMAGE_SUFFIXES)}), but "
            f"got {skipped.total():,} other files; unpack it if it holds more tar files."
        )

    last = {name: i for i, name in enumerate(names)}  # keeps the last of equal names
    order = sorted(last)
    chosen = np.concatenate(places)[[last[name] for name in order]]
    return Found(order, TarImages([tar for _, tar in tars], chosen), skipped)


def _visible_name(name: str) -> str:
    """Return the name relative to where tar unpacks, or "" for a hidden file."""
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return "" if any(map(is_hidden, parts)) else "/".join(parts)


def _members(tar: _Tar) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of all members; ValueError unless the tar file is complete."""
    # tarfile takes a damaged or truncated header for the end of the file.
    last = ""
    end = 0
    with open(tar.path, "rb", buffering=_HEADER_BYTES) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                while (member := archive.next()) is not None and archive.offset <= tar.size:
                    archive.members.clear()  # type: ignore[attr-defined]  # a kilobyte each
                    yield member
                    last = member.name
                    end = archive.offset
        except (tarfile.TarError, ValueError, OverflowError) as error:
            if not last:
                raise UserValueError(
                    f"{tar.path}: must be an uncompressed tar file, but is none or is cut off "
                    f"({error}); decompress it, or make one with `tar cf photos.tar photos/`."
                ) from error
        file.seek(end)
        rest = file.read(tarfile.BLOCKSIZE + _MAX_PADDING)

    if any(rest) or not tarfile.BLOCKSIZE <= len(rest) < tarfile.BLOCKSIZE + _MAX_PADDING:
        raise UserValueError(
            f"{tar.path}: a tar file must end after its last member, {last!r}, but this one is cut "
            f"off, damaged or continues from byte {end:,} to {tar.size:,}; copy it again, or join "
            "files with `tar -Af`."
        )
