"""Image files that are cut, flipped, mixed up and forged, decoded where a crash does no harm.

Among them are a few bytes whose header says an image just inside the limit, and formats that other
decoders would take.
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
    SMALL_PIXELS,
    ImageReadError,
    can_read,
    decode_image,
)

from .base import Answer, Apart, Log, Outcome, judge

LIMIT_S = 30.0  # time that one file may take, on a machine that does other things
LIMIT_MIB = 2560  # memory that decoding one file may take
FINE = ("decoded", "refused")
LARGE_PX = 13_300  # side of a square image that is just inside the limit of pixels
SMALL_PX = int(SMALL_PIXELS**0.5)  # side of one that is decoded whatever its bytes
MOST_MIB = 64  # memory that refusing a file may take

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


def bounds(log: Log) -> Outcome:
    """Decode such files in a process apart; all must be refused before memory is taken."""
    files = [*tiny_files(LARGE_PX), *undocumented_files()]
    small = (
        (name, answer if answer.mib < MOST_MIB else answer._replace(kind="takes much memory"))
        for name, answer in decoded_apart(files)
    )
    found = judge(small, ("refused",), log)
    fault = "files of some bytes that say 177 million pixels; other formats than the documented"
    remark = f"all refused, {found.mib:.0f} MiB at most for one"
    return found.outcome(fault, remark)


def tiny_files(side: int) -> Iterator[tuple[str, bytes]]:
    """Yield the smallest files that say ``side`` x ``side`` px: what they are, and their bytes."""
    yield "WebP without loss", flat_webp(side)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(64))), (b"IEND", b""))
    yield "PNG", b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(*chunk) for chunk in chunks)
    size = struct.pack("<HH", side, side)
    picture = b"\x2c\0\0\0\0" + size + b"\0\x02\x02\x4c\x01\0"
    yield "GIF", b"GIF89a" + size + b"\x80\0\0" + bytes(6) + picture + b"\x3b"
    # Run lengths (compression 1) that end at once, as BMP allows.
    about = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, 2, 0, 0, 2, 0)
    yield "BMP", struct.pack("<2sIII", b"BM", 64, 0, 62) + about + bytes(8) + b"\0\x01"
    file = io.BytesIO()
    Image.new("1", (64, 64)).save(file, "TIFF", compression="group4")
    yield "TIFF", _resized_tiff(file.getvalue(), side)


def flat_webp(side: int) -> bytes:
    """Return a WebP in one colour, up to 16,384 px a side: 30 bytes, a pixel takes no bit."""
    sides = (side - 1) | (side - 1) << 14
    codes = int("0001" * 5, 2)  # simple, one symbol, of one bit: 0; lowest bit first
    data = b"\x2f" + struct.pack("<I", sides) + (codes << 3).to_bytes(5, "little")
    chunk = b"VP8L" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


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


def _png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _resized_tiff(data: bytes, side: int) -> bytes:
    for tag in (256, 257):
        for kind in (3, 4):
            old = struct.pack("<HHII", tag, kind, 1, 64)
            data = data.replace(old, struct.pack("<HHII", tag, 4, 1, side))
    return data
