"""Files of weights that ask for code, for addresses or for memory, in every form."""

import codecs
import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

MANY = 2**40
_WRITES = {
    "archive": lambda path, content: write_archive(path, content),
    "old": lambda path, content: write_old(path, content),
    "pickle": lambda path, content: path.write_bytes(dump(content)),
}
"""Form of a file -> what writes it."""
_FORGED = (*np.dtype([("a", "O")]).__reduce__()[2][:-1], 0)  # type: ignore[index]
"""State of a kind with an object in it that says that there is none."""
_SHORT = torch.arange(4.0)


class Call:
    """Is read as what a function gives, with a state that is set after."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None) -> None:
        self.parts = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.parts


class Storage:
    """A storage of so many float32, of which the file has four; in old files, a view of it."""

    def __init__(self, count: int, kind: Any = torch.FloatStorage, view: Any = None) -> None:
        self.count, self.kind, self.view = count, kind, view


class Raw(bytes):
    """A pickle as it is."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, old: bool) -> None:
        super().__init__(file, protocol=2)
        self.old = old

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Storage):
            saved = ("storage", value.kind, "0", "cpu", value.count)
            return (*saved, value.view) if self.old else saved
        return None


def dump(content: Any, *, old: bool = False) -> bytes:
    """Return a pickle, which a storage lies in as torch writes it."""
    if isinstance(content, Raw):
        return bytes(content)
    file = io.BytesIO()
    _Pickler(file, old).dump(content)
    return file.getvalue()


def write_archive(path: Path, content: Any, *, packed: tuple[str, ...] = ()) -> None:
    """Write what torch.save does since 1.6, with some parts compressed."""
    with zipfile.ZipFile(path, "w", compresslevel=1) as archive:
        parts = {"data.pkl": dump(content), "version": b"3\n", "data/0": _SHORT.numpy().tobytes()}
        for name, data in parts.items():
            kind = zipfile.ZIP_DEFLATED if name in packed else zipfile.ZIP_STORED
            archive.writestr(f"x/{name}", data, kind)


def write_old(path: Path, content: Any) -> None:
    """Write what torch.save did before 1.6."""
    about = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    heads = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, about)]
    keys = ["0"] if b"FloatStorage" in dump(content, old=True) else []
    data = (4).to_bytes(8, "little") + _SHORT.numpy().tobytes() if keys else b""
    path.write_bytes(b"".join([*heads, dump(content, old=True), pickle.dumps(keys, 2), data]))


def tensor(count: Any, shape: Any, strides: Any, start: Any = 0) -> Call:
    """A tensor in a storage, or in one of so many numbers."""
    storage = count if isinstance(count, Storage) else Storage(count)
    rebuild = torch._utils._rebuild_tensor_v2
    return Call(rebuild, storage, start, shape, strides, False, OrderedDict())


def array(dtype: Any, shape: Any, data: bytes) -> Call:
    """An array of numpy."""
    empty = np.zeros(1).__reduce__()[0]
    return Call(empty, np.ndarray, (0,), b"b", state=(1, shape, dtype, False, data))


def nested(before: bytes, after: bytes, times: int = 45) -> bytes:
    """Pickle of a value that lies twice in the next one, and so on."""
    return before * times + b"K\x01q\x01" + (after + b"q\x01") * times


_TREES = {
    "tuples": nested(b"(", b"h\x01t"),
    "lists": nested(b"(", b"h\x01l"),
    "dicts": nested(b"(K\x01", b"K\x02h\x01d"),
}
_FILLED_LATER = b"](%b%be" % (
    b"".join(b"]q%c" % i for i in range(1, 46)),
    b"".join(b"h%c(h%ch%ce" % (i, i + 1, i + 1) for i in range(1, 45)),
)
"""Lists that are filled when others hold them already, the outer ones first."""


def values() -> dict[str, Any]:
    """Return what a file may say in every form."""
    float64 = np.dtype("f8")
    scalar = np.float64(1).__reduce__()[0]
    dtype = Call(np.dtype, "V8", False, True, state=_FORGED)
    many, text, items = np.zeros(2**17), "a" * 2**20, list(range(2**16))
    history = {"_log_history": many, "_count_history": many, "max_length": 10**6}
    return {
        "2,000 copies of a history": [Call(HistoryBuffer, state=history) for _ in range(2000)],
        "2,000 copies of a text": [Call(codecs.encode, text, "latin1") for _ in range(2000)],
        "2,000 sets of a list": [Call(set, items) for _ in range(2000)],
        "an array in 2,000 places": {str(index): many for index in range(2000)},
        "a forged kind of numpy in a set": Call(set, Call(np.ndarray, (1,), dtype, b"AAAAAA\0\0")),
        "a forged kind of numpy": array(dtype, (1,), b"AAAAAA\0\0"),
        "a scalar of it": Call(scalar, dtype, b"AAAAAA\0\0"),
        "an array of addresses": array(np.dtype("O"), (1,), b"AAAAAA\0\0"),
        "an array of 2^40": array(float64, (MANY,), b"12345678"),
        "an array that is not filled": Call(np.ndarray, (2**30,), float64),
        "an array with strides": Call(np.ndarray, (2,), float64, b"1" * 8, 0, (2**40,)),
        "a scalar of too few bytes": Call(scalar, float64, b"1"),
        "a shape of text": array(float64, ("a" * 2**16, 2**16), b"12345678"),
        "2^30 empty bytes": Call(bytearray, 2**30),
        "a place in the memo of 2^27": Raw(b"\x80\x02Nr\xff\xff\xff\x07."),
        "bytes of 2^40": Raw(b"\x80\x04\x8e" + MANY.to_bytes(8, "little") + b"1."),
        "a frame of 2^40": Raw(b"\x80\x04\x95" + MANY.to_bytes(8, "little") + b"N."),
        **{f"2^45 {kind}": Raw(b"\x80\x02" + tree + b".") for kind, tree in _TREES.items()},
        "2^45 tuples as a key": Raw(b"\x80\x02}(" + _TREES["tuples"] + b"K\x00u."),
        "a tuple in 200,000 others as a key": Raw(b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."),
        "2^45 tuples in a set": Raw(b"\x80\x02c__builtin__\nset\n](%be\x85R." % _TREES["tuples"]),
        "2^44 lists filled later": Raw(b"\x80\x02" + _FILLED_LATER + b"."),
        "a list in itself": Raw(b"\x80\x02]q\x01h\x01a."),
        "100,000 lists in one another": Raw(b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b"."),
        "a new method of a class": Raw(
            b"\x80\x02ccollections\nCounter\nN}X\x04\0\0\0markK\0s\x86b."
        ),
        "a name of two lines": Raw(b"\x80\x04\x8c\x03a\nb\x8c\x03c\x1bd\x93."),
        "no weights": {"a": 1},
        "nothing": Raw(b""),
    }


def tensors() -> dict[str, Any]:
    """Return what a file of torch may say besides."""
    sparse = torch._utils._rebuild_sparse_tensor
    places = tensor(Storage(2, torch.LongStorage), (1, 1), (1, 1))
    return {
        "a tensor longer than its storage": tensor(4, (5,), (1,)),
        "a tensor of 2^40 in 4 numbers": tensor(4, (MANY,), (1,)),
        "an expanded tensor of 2^40": tensor(4, (MANY,), (0,)),
        "1,000 expanded tensors": {str(i): tensor(4, (2**20,), (0,)) for i in range(1000)},
        "a tensor of 2^80": tensor(4, (MANY, MANY), (0, 0)),
        "strides of 2^62": tensor(4, (3, 3), (2**62, 2**62)),
        "a tensor behind its storage": tensor(4, (1,), (1,), 2**40),
        "a tensor before its storage": tensor(4, (1,), (1,), -(2**20)),
        "strides backwards": tensor(4, (4,), (-1,)),
        "a storage larger than its part": tensor(2**28, (2**28,), (1,)),
        "a storage of 2^40": tensor(MANY, (4,), (1,)),
        "a storage of -4": tensor(-4, (4,), (1,)),
        "a sparse tensor of any index": Call(
            sparse, torch.sparse_coo, (places, tensor(4, (1,), (1,)), torch.Size([4]))
        ),
        "a storage with 2^45 tuples as its name": Raw(
            b"\x80\x02(U\x07storagectorch\nFloatStorage\n%bU\x03cpuK\x04tQ." % _TREES["tuples"]
        ),
        "a view beyond its storage": tensor(Storage(4, view=("1", 2, 2**40)), (2**20,), (1,)),
        "a view before its storage": tensor(Storage(4, view=("1", -(2**20), 4)), (2**10,), (1,)),
    }


def write_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write all files; yield what each asks for, with its form, and the file."""
    numbers = count(1)

    def place(suffix: str = ".pth") -> Path:
        return folder / f"hostile_{next(numbers)}{suffix}"

    for forms, contents in (
        (("archive", "old", "pickle"), values()),
        (("archive", "old"), tensors()),
    ):
        for what, content in contents.items():
            for form in forms:
                path = place(".pkl" if form == "pickle" else ".pth")
                whole = {"state_dict": {"conv1.weight": content}}
                _WRITES[form](path, content if isinstance(content, Raw) else whole)
                yield f"{what} ({form})", path
    plain = {"state_dict": {"a": tensor(4, (4,), (1,))}}
    path = place()
    write_archive(path, Raw(dump(plain) + bytes(2**27)), packed=("data.pkl",))
    yield "2^27 bytes packed", path
    path = place()
    write_archive(path, plain, packed=("data/0",))
    yield "a packed tensor", path
    path = place()
    write_archive(path, Raw(dump(plain) + bytes(2**20)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"a"  # so that the list of parts is written again
        archive.filelist += [archive.filelist[0]] * 100
    yield "100 parts in the same bytes", path
