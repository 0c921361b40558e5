"""Reads what ``torch.save`` wrote: the archives of torch >= 1.6 and the older files.

torch's own readers admit sparse tensors with any index and functions that take any memory. Here a
tensor lies in the bytes of its own part of the file, and all take no more memory than a few times
the file.
"""

import io
import math
import mmap
import os
import struct
import zipfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from .pickled_values import RefusedError, UnknownError, sizes_of
from .safe_pickle import load_pickle

_ARCHIVE = b"PK\x03\x04"
_MAGIC = 0x1950A86A20F9469CFC6C  # torch's first number in older files
_COPIES = 8
"""How many times the size of its file all storages and tensors may take together: they share."""
_SPARE = 2**20  # bytes that they may take in any case, such as an expanded buffer


def is_archive(path: Path) -> bool:
    """Whether a file is a zip archive, as torch >= 1.6 writes it."""
    with path.open("rb") as file:
        return file.read(len(_ARCHIVE)) == _ARCHIVE


def load_torch(path: Path, *, tolerant: bool = False, mapped: bool = False) -> Any:
    """Read what ``torch.save`` of any version wrote, since 0.2, as ``load_pickle``; to the CPU.

    If ``mapped``, the tensors of an archive stay in the file, which must not change meanwhile.
    """
    archived = is_archive(path)
    with path.open("rb") as file:
        return _Archive(file, mapped).load(tolerant) if archived else _OldFile(file).load(tolerant)


def stored_parts(file: IO[bytes]) -> dict[str, tuple[int, int]]:
    """Return place and length in bytes of each part of a zip archive that is not compressed."""
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        found = archive.infolist()
    if any(each.compress_type != zipfile.ZIP_STORED for each in found):
        raise RefusedError("it is a compressed archive, such as TorchScript")
    if sum(each.file_size for each in found) > size:
        raise RefusedError("its parts are larger than the file")
    parts = {}
    for each in found:
        file.seek(each.header_offset + 26)  # of the lengths of the name and of what comes after it
        start = each.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
        parts[each.filename] = start, each.file_size
    return parts


class _File(ABC):
    """An open file, and how much of the memory that it may take is left."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.num_left = _COPIES * os.fstat(file.fileno()).st_size + _SPARE
        self.storages: dict[str, Tensor] = {}

    def read(self, file: IO[bytes], tolerant: bool = False) -> Any:
        """Read a pickle."""
        functions = {
            "torch._utils._rebuild_parameter": lambda data, *_: data,
            "torch._utils._rebuild_tensor": self._tensor,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._tensor_of_kind,
        }
        return load_pickle(file, tolerant=tolerant, functions=functions, storage=self._storage)

    @abstractmethod
    def bytes_of(self, key: str, num_bytes: int) -> Tensor:
        """Return the bytes of a storage, uint8 (num_bytes,)."""

    def _take(self, num_bytes: int) -> None:
        self.num_left -= num_bytes
        if self.num_left < 0:
            raise RefusedError("its tensors are far larger than the file")

    def _storage(self, saved: Any) -> Tensor:
        """Return the numbers (N,) of a storage."""
        kind, dtype, key, _, count, *view = saved
        if kind != "storage" or not isinstance(dtype, torch.dtype) or not isinstance(key, str):
            raise UnknownError("something else in the place of a storage")
        if key not in self.storages:
            num_bytes = sizes_of([count])[0] * dtype.itemsize
            self._take(num_bytes)
            self.storages[key] = self.bytes_of(key, num_bytes).view(dtype)
        numbers = self.storages[key].view(dtype)
        if view and view[0]:  # as torch < 0.4 kept a part of a storage
            _, start, count = view[0]
            return numbers[start : start + count]
        return numbers

    def _tensor(
        self, storage: Tensor, start: int, shape: Any, strides: Any, *others: Any
    ) -> Tensor:
        if others[2:] and others[2]:
            raise UnknownError("a conjugate or negative view")
        (start,), shape, strides = sizes_of([start]), sizes_of(shape), sizes_of(strides)
        last = start + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if 0 not in shape and last >= storage.numel():
            raise RefusedError(
                f"it has a tensor of shape {shape} in a storage of {storage.numel()} numbers"
            )
        self._take(math.prod(shape) * storage.itemsize)
        return storage.as_strided(shape, strides, storage.storage_offset() + start)

    def _tensor_of_kind(self, storage: Tensor, *arguments: Any) -> Tensor:
        *others, dtype = arguments[:6]
        return self._tensor(storage.view(dtype), *others, *arguments[6:])


class _Archive(_File):
    """A zip archive of a pickle and a part for each storage."""

    def __init__(self, file: IO[bytes], mapped: bool) -> None:
        super().__init__(file)
        parts = stored_parts(file)
        folder = next(iter(parts)).partition("/")[0]
        self.parts = {name.removeprefix(f"{folder}/"): part for name, part in parts.items()}
        self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if mapped else None

    def load(self, tolerant: bool) -> Any:
        if "byteorder" in self.parts and self._read("byteorder") != b"little":
            raise RefusedError("its numbers are big-endian")
        return self.read(io.BytesIO(self._read("data.pkl")), tolerant)

    def bytes_of(self, key: str, num_bytes: int) -> Tensor:
        start, size = self.parts[f"data/{key}"]
        if num_bytes > size:
            raise RefusedError(f"it has a storage of {num_bytes} bytes in {size}")
        if self.map is not None and num_bytes:
            return torch.frombuffer(self.map, dtype=torch.uint8, count=num_bytes, offset=start)
        self.file.seek(start)
        return _fill(torch.empty(num_bytes, dtype=torch.uint8), self.file)

    def _read(self, name: str) -> bytes:
        start, size = self.parts[name]
        self.file.seek(start)
        return self.file.read(size)


class _OldFile(_File):
    """Pickles after one another, and after them the bytes of the storages."""

    def load(self, tolerant: bool) -> Any:
        if self.read(self.file) != _MAGIC:
            raise RefusedError("torch.save did not write it")
        self.read(self.file)  # the version of the format
        self.read(self.file)  # about the machine
        content = self.read(self.file, tolerant)
        for key in map(str, self.read(self.file)):
            numbers = self.storages[key]
            if struct.unpack("<q", self.file.read(8)) != (numbers.numel(),):
                raise RefusedError("it has a storage of another length")
            _fill(numbers.view(torch.uint8), self.file)
        return content

    def bytes_of(self, key: str, num_bytes: int) -> Tensor:
        return torch.zeros(num_bytes, dtype=torch.uint8)  # filled at the end


def _fill(data: Tensor, file: IO[bytes]) -> Tensor:
    if file.readinto(data.numpy()) != data.numel():  # type: ignore[attr-defined]
        raise EOFError
    return data
