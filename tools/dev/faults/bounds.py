"""A few bytes whose header says an image just inside the limit, and decoders nobody asked for."""

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from mmssprl.datasets.image_bounds import SMALL_PIXELS
from mmssprl.datasets.image_opening import FORMATS

from .base import Log, Outcome, judge
from .images import decoded_apart

LARGE_PX = 13_300
"""Side of a square image that is just inside the limit of pixels."""
SMALL_PX = int(SMALL_PIXELS**0.5)
"""Side of one that is decoded whatever its bytes."""
MOST_MIB = 64
"""Memory that refusing a file may take."""


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
    """Return a WebP without loss in one colour, ``side`` x ``side`` px up to 16,384: 30 bytes.

    Each of its five Huffman codes has one symbol, so that a pixel takes no bit.
    """
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
