"""Image files that are cut, flipped, mixed up and forged, decoded where a crash does no harm."""

import io
import multiprocessing
import os
import random
import resource
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from PIL import Image

from mmssprl.datasets.image_opening import can_read
from mmssprl.datasets.image_reading import ImageReadError, decode_image

from .outcome import Outcome

LIMIT_S = 30.0
"""Time that one file may take, on a machine that does other things."""
LIMIT_MIB = 2560
"""Memory that decoding one file may take."""

_WIDTH, _HEIGHT = 67, 45
_SIDES = (0, 1, 7, 66, 300, 5_000, 12_000, 16_383, 30_000, 65_535)
"""Sides that are forged, in pixels."""
_FORMATS: dict[str, Sequence[tuple[str, dict]]] = {
    "JPEG": [
        *(("RGB", {"quality": 90}), ("L", {}), ("CMYK", {})),
        *(("RGB", {"progressive": True}), ("RGB", {"restart_marker_rows": 1})),
    ],
    "PNG": [("RGB", {}), ("RGBA", {}), ("P", {}), ("1", {}), ("I;16", {})],
    "WEBP": [("RGB", {}), ("RGBA", {"lossless": True})],
    "BMP": [("RGB", {}), ("P", {}), ("1", {})],
    "TIFF": [
        *(("RGB", {}), ("RGB", {"compression": "tiff_lzw"})),
        *(("L", {"compression": "tiff_deflate"}), ("RGB", {"compression": "jpeg"})),
        ("1", {"compression": "group4"}),
    ],
    "GIF": [("P", {}), ("P", {"save_all": True, "append_images": [Image.new("P", (30, 50))]})],
    "AVIF": [("RGB", {}), ("RGBA", {})],
}
"""Kinds of files, of each format: the mode of the image, and what it is saved with."""


def images(log: Callable[[str], object], tries: int = 5000) -> Outcome:
    """Decode so many spoiled files; each must become an image of its header's size, or be refused.

    A process that crashes or hangs, an error of another kind, a size that is not the header's, and
    memory above the limit are not survived.
    """
    found: Counter[str] = Counter()
    peak = seconds = 0.0
    data = fuzzed_files(random.Random(0))
    for kind, name, mib, took in decoded_apart(islice(data, tries)):
        found[kind] += 1
        peak, seconds = max(peak, mib), max(seconds, took)
        if kind not in ("decoded", "refused"):
            log(f"{name}: {kind}")
    log(f"images: {dict(found)}, {peak:.0f} MiB at most")
    remark = (
        f"{found['decoded']} decoded to the size in the header, {found['refused']} refused; "
        f"{peak:,.0f} MiB and {seconds:.1f} s at most for one"
    )
    survived = found["decoded"] + found["refused"]
    formats = ", ".join(_sources())
    fault = f"{formats} files cut, bits flipped, headers swapped, sides forged"
    return Outcome(fault, tries, survived, "0", remark)


def fuzzed_files(draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield spoiled files without end, each with what was done to which format."""
    sources = _sources()
    while True:
        format, other = draw.choices(list(sources), k=2)
        damage = draw.choice(_DAMAGES)
        data = damage(draw, draw.choice(sources[format]), draw.choice(sources[other]))
        yield f"{format} {damage.__name__}", data


def decoded_apart(
    files: Iterator[tuple[str, bytes]],
    decode: Callable[[bytes], tuple[int, ...]] | None = None,
) -> Iterator[tuple[str, str, float, float]]:
    """Decode files in another process, and in a new one after each that ends or hangs it.

    Args:
        files: Name and content.
        decode: Returns height and width, or raises ``ImageReadError``; None takes the package's.

    Yields:
        What came of it, the name, the memory that it took in MiB, and the time in seconds.
    """
    fork = multiprocessing.get_context("fork")
    child = None
    for name, data in files:
        if child is None:
            ours, theirs = fork.Pipe()
            child = fork.Process(target=_decode_all, args=(theirs, decode or _decode), daemon=True)
            child.start()
            theirs.close()
        answer: tuple[str, float, float] | None = None
        try:
            ours.send_bytes(data)
            is_answered = ours.poll(LIMIT_S)
            answer = ours.recv() if is_answered else ("hangs", 0.0, LIMIT_S)
        except (EOFError, ConnectionError):
            child.join()
            answer = (f"ends the process by {child.exitcode}", 0.0, 0.0)
        if answer[0] not in ("decoded", "refused") or answer[1] > LIMIT_MIB:
            child.kill()
            child.join()
            child = None
        kind = "takes too much memory" if answer[1] > LIMIT_MIB else answer[0]
        yield kind, name, answer[1], answer[2]
    if child is not None:
        child.kill()
        child.join()


def _decode(data: bytes) -> tuple[int, ...]:
    return tuple(decode_image(np.frombuffer(data, np.uint8).copy(), "image").shape[1:])


def _decode_all(files: Connection, decode: Callable[[bytes], tuple[int, ...]]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libjpeg writes what it finds
    warnings.simplefilter("ignore")
    while True:
        data = files.recv_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _peak_mib()
        start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        try:
            kind = "decoded" if sorted(decode(data)) == _sides(data) else "has another size"
        except ImageReadError:
            kind = "refused"
        except Exception as error:
            kind = f"raises {error!r}"
        took = resource.getrusage(resource.RUSAGE_SELF).ru_utime - start
        files.send((kind, _peak_mib() - before, took))


def _sides(data: bytes) -> list[int]:
    """Return the sides in the header, sorted, for an orientation may swap them."""
    with Image.open(io.BytesIO(data)) as image:
        return sorted(image.size)


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _sources() -> dict[str, list[bytes]]:
    noise = np.random.default_rng(0).integers(0, 256, (_HEIGHT, _WIDTH, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    exif = Image.Exif()
    exif[0x0112] = 6  # the orientation that swaps the sides
    sources: dict[str, list[bytes]] = {}
    for format, kinds in _FORMATS.items():
        if not can_read(f".{format.lower()}"):
            continue
        for mode, options in kinds:
            file = io.BytesIO()
            gray = image.convert("I").convert("I;16") if mode == "I;16" else image.convert(mode)
            extra = {"exif": exif} if format in ("JPEG", "PNG", "WEBP") else {}
            gray.save(file, format, **options, **extra)
            sources.setdefault(format, []).append(file.getvalue())
    return sources


def _cut(draw: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


def _flip(draw: random.Random, data: bytes, other: bytes) -> bytes:
    """Flip some bits, most of them in the header."""
    broken = bytearray(data)
    for _ in range(draw.choice((1, 2, 8, 64))):
        place = draw.randrange(min(len(data), draw.choice((64, 700, len(data)))))
        broken[place] ^= 1 << draw.randrange(8)
    return bytes(broken)


def _swap(draw: random.Random, data: bytes, other: bytes) -> bytes:
    """Put the begin of another file before the rest of this one."""
    place = draw.randrange(1, min(len(data), len(other), 700))
    return other[:place] + data[place if draw.random() < 0.5 else 0 :]


def _forge(draw: random.Random, data: bytes, other: bytes) -> bytes:
    """Write other sides wherever the header has them."""
    old, new = (_WIDTH, _HEIGHT), (draw.choice(_SIDES), draw.choice(_SIDES))
    for code in ("<HH", "<II", ">II"):  # GIF and WebP; BMP; PNG and AVIF
        data = data.replace(struct.pack(code, *old), struct.pack(code, *new))
    data = data.replace(struct.pack(">HH", *old[::-1]), struct.pack(">HH", *new[::-1]))  # JPEG
    for i in range(2):  # TIFF: the tag, its type and the number of its values come before
        for kind in (3, 4):
            tag = struct.pack("<HHI", 256 + i, kind, 1)
            data = data.replace(tag + struct.pack("<I", old[i]), tag + struct.pack("<I", new[i]))
    if data.startswith(b"\x89PNG"):
        data = data[:29] + struct.pack(">I", zlib.crc32(data[12:29])) + data[33:]
    return data


_DAMAGES = (_cut, _flip, _swap, _forge)
