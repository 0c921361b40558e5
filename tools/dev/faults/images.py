"""Image files that are cut, flipped, mixed up and forged, decoded where a crash does no harm.

Among them are formats that other decoders would take.
"""

import io
import os
import random
import struct
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from PIL import Image

from mmssprl.datasets.image_reading import (
    FORMATS,
    ImageReadError,
    can_read,
    decode_image,
)

from .base import Answer, Apart, Log, Outcome, judge

LIMIT_S = 30.0  # time that one file may take, on a machine that does other things
LIMIT_MIB = 2560  # memory that decoding one file may take
FINE = ("decoded", "refused")

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


def images(log: Log, tries: int = 5000) -> Outcome:
    """Decode spoiled files; each must become an image of its header's size, or be refused."""
    files = islice(fuzzed_files(random.Random(0)), tries)
    found = judge(decoded_apart(files), FINE, log)
    remark = (
        f"{found.kinds['decoded']} decoded to the size in the header, {found.kinds['refused']} "
        f"refused; {found.mib:,.0f} MiB and {found.seconds:.1f} s at most for one"
    )
    formats = ", ".join(_sources())
    fault = f"{formats} files cut, bits flipped, headers swapped, sides forged"
    return found.outcome(fault, remark)


def fuzzed_files(draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield spoiled files without end, each with what was done to which format."""
    sources = _sources()
    while True:
        format, other = draw.choices(list(sources), k=2)
        damage = draw.choice(_DAMAGES)
        data = damage(draw, draw.choice(sources[format]), draw.choice(sources[other]))
        yield f"{format} {damage.__name__}", data


def decoded_apart(
    files: Iterable[tuple[str, bytes]],
    decode: Callable[[bytes], tuple[int, ...]] | None = None,
) -> Iterator[tuple[str, Answer]]:
    """Decode named files in another process, by the package's function or by another one."""

    def answer(data: bytes) -> tuple[str, str]:
        try:
            is_right = sorted((decode or _decode)(data)) == _sides(data)
            return ("decoded" if is_right else "has another size"), ""
        except ImageReadError:
            return "refused", ""
        except Exception as error:
            return f"raises {error!r}", ""

    with Apart(answer, limit_s=LIMIT_S, limit_mib=LIMIT_MIB, prepare=_be_silent) as process:
        for name, data in files:
            yield name, process.ask(data)


def _decode(data: bytes) -> tuple[int, ...]:
    return tuple(decode_image(np.frombuffer(data, np.uint8).copy(), "image").shape[1:])


def _be_silent() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libjpeg writes what it finds
    warnings.simplefilter("ignore")


def _sides(data: bytes) -> list[int]:
    """Return the sides in the header, sorted, for an orientation may swap them."""
    with Image.open(io.BytesIO(data)) as image:
        return sorted(image.size)


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


def formats(log: Log) -> Outcome:
    """Decode files of other formats in a process apart; all must be refused."""
    found = judge(decoded_apart(undocumented_files()), ("refused",), log)
    return found.outcome("images of other formats than the documented", "all refused")


def undocumented_files() -> Iterator[tuple[str, bytes]]:
    """Yield images in formats that pillow or OpenCV decodes and this package does not."""
    image = Image.fromarray(np.zeros((32, 32, 3), np.uint8))
    for name in sorted({"TGA", "PPM", "PCX", "SGI", "ICO", "JPEG2000", "DDS", "IM"} - {*FORMATS}):
        file = io.BytesIO()
        image.save(file, name)
        yield name, file.getvalue()
    yield "Sun raster", struct.pack(">8I", 0x59A66A95, 32, 32, 24, 3072, 1, 0, 0) + bytes(3072)
    yield "Radiance HDR", b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 32 +X 32\n" + bytes(4096)
    yield "OpenEXR", b"\x76\x2f\x31\x01" + bytes(1024)
