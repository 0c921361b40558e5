"""Read images out of plain tar files without unpacking them, at the offsets that headers tell."""

import os
import stat
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mmssprl.datasets.image_index import IMAGE_SUFFIXES, kind_of
from mmssprl.datasets.image_reading import ImageReadError

from ..console.progress import watch
from ..errors import UserValueError

_HEADER_BYTES = 4096
"""What is read at a time in search of headers. The 128 KiB of newer Pythons are whole images."""

_MAX_PADDING = 2**24
"""Fewer zeros lie at the end of a tar file, in bytes. tar fills up to 10 kB; a download that
reserved its space and was broken off ends in as many zeros as it lacks data."""

_NOT_WHOLE = "linked or sparse"
"""Kind of the images that a tar file does not hold as they are: tar's --dereference and
--hard-dereference store links as images."""


class _Tar(NamedTuple):
    """A tar file as it was when its headers were read."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> "_Tar":
        state = os.stat(path)
        if not stat.S_ISREG(state.st_mode):  # to open a pipe would wait for ever
            raise UserValueError(f"{path}: must be a tar file, but is no regular file; remove it.")
        return cls(path, state.st_size, state.st_mtime_ns)


@dataclass(frozen=True)
class TarImages:
    """Images in tar files, by number."""

    tars: list[_Tar]
    places: np.ndarray
    """int64 (N, 3), the number of each image's tar file, its offset there and its size in bytes."""

    def read(self, index: int, path: str) -> np.ndarray:
        """Read the file of one image, which errors call ``path``, as uint8 (size,), not decoded."""
        number, offset, size = self.places[index].tolist()
        tar = self.tars[number]
        data = np.empty(size, np.uint8)
        try:
            with open(tar.path, "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                num_read = os.preadv(file.fileno(), [data.data], offset)
        except OSError as error:
            reason = f"{tar.path} cannot be read ({error.strerror})"
            raise ImageReadError(path, reason) from error
        if (state.st_size, state.st_mtime_ns) != tar[1:] or num_read < size:
            raise ImageReadError(path, f"{tar.path} has changed since its headers were read")
        return data


class Found(NamedTuple):
    """What is in tar files: sorted names, images in the same order, other files by their kind."""

    names: list[str]
    images: TarImages
    skipped: Counter[str]


def index_tars(paths: Mapping[str, str]) -> Found:
    """Find the images in tar files, given by the prefixes of their images' names.

    Images are regular files; hidden ones are left out. A name is the prefix and the member's name
    without "./" in front; of equal names the last one counts, as where tar unpacks. Tar files that
    have not changed since the last call are not read again. Raises ValueError for a tar file that
    is compressed, cut off or damaged, or no image in any of them.
    """
    return _read_headers(tuple((prefix, _Tar.of(path)) for prefix, path in paths.items()))


@lru_cache(maxsize=1)  # `pretrain` looks at the images before it trains on them
def _read_headers(tars: tuple[tuple[str, _Tar], ...]) -> Found:
    names: list[str] = []
    places: list[np.ndarray] = []
    skipped: Counter[str] = Counter()
    headers = watch(tars, "reading the headers of tar files")
    for number, (prefix, tar) in enumerate(headers):
        found = []
        for member in _members(tar):
            name = _visible_name(member.name)
            if not name.lower().endswith(IMAGE_SUFFIXES):
                if name and not member.isdir():
                    skipped[kind_of(name)] += 1
            elif member.isreg() and not member.issparse():
                names.append(prefix + name)
                found.append((number, member.offset_data, member.size))
            elif not member.isdir():
                skipped[_NOT_WHOLE] += 1
        places.append(np.array(found, np.int64).reshape(-1, 3))
    if not names:
        first = tars[0][1].path
        raise UserValueError(
            f"{first}: a tar file must hold images ({', '.join(IMAGE_SUFFIXES)}), but got "
            f"{skipped.total():,} other files and no image; correct the path, or "
            "unpack it if it holds tar files."
        )
    last = {name: i for i, name in enumerate(names)}  # of equal names the last one stays
    order = sorted(last)
    chosen = np.concatenate(places)[[last[name] for name in order]]
    return Found(order, TarImages([tar for _, tar in tars], chosen), skipped)


def _visible_name(name: str) -> str:
    """Return the name relative to where tar unpacks, or "" of a hidden file."""
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return "" if any(part.startswith(".") for part in parts) else "/".join(parts)


def _members(tar: _Tar) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of all members; ValueError unless it is a complete tar file."""
    # tarfile takes a header that is damaged or cut off for the end of the file.
    last, end = "", 0
    with open(tar.path, "rb", buffering=_HEADER_BYTES) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                while (member := archive.next()) is not None and archive.offset <= tar.size:
                    archive.members.clear()  # type: ignore[attr-defined]  # a kilobyte each
                    yield member
                    last, end = member.name, archive.offset
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
            f"{tar.path}: a tar file must be complete and end after its last member, {last!r}, but "
            f"this one is cut off, damaged or goes on from byte {end:,} to {tar.size:,}; copy or "
            "make it again, and join tar files by `tar -Af`, not by cat."
        )
