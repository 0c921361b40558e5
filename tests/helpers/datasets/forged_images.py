"""Image files whose headers lie."""

import io
import random
import struct
import zlib

import numpy as np
from helpers.datasets import blocks
from PIL import Image

from mmssprl.datasets.image_reading import FORMATS, SMALL_PIXELS, can_read

LARGE_PX = 13_300  # side of a square image that is just inside the limit of pixels
SMALL_PX = int(SMALL_PIXELS**0.5)  # side of one that is decoded whatever its bytes


def encode(format, **options):
    """An image of noise of 24 x 24 px as a file: bytes."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    return blocks.encode(Image.fromarray(noise), format, **options)


def jpeg(**options):
    return encode("JPEG", **options)


def forge_sides(data, width, height):
    """A JPEG whose header says another width and height."""
    place = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2")) + 5
    return data[:place] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[place + 4 :]


def spoiled_files(tries):
    """Yield files of all formats that are cut or have flipped bits, most of them in the header."""
    draw = random.Random(0)
    sources = [encode(format) for format in sorted(FORMATS) if can_read(f".{format.lower()}")]
    for i in range(tries):
        data = bytearray(draw.choice(sources))
        if i % 3 == 0:
            del data[draw.randrange(len(data)) :]
        for _ in range(draw.choice((1, 2, 8, 64)) if i % 3 else 0):
            data[draw.randrange(min(len(data), 700))] ^= 1 << draw.randrange(8)
        yield bytes(data)


def tiny_files(side):
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


def flat_webp(side):
    """Return a WebP in one colour, up to 16,384 px a side: 30 bytes, a pixel takes no bit."""
    sides = (side - 1) | (side - 1) << 14
    codes = int("0001" * 5, 2)  # simple, one symbol, of one bit: 0; lowest bit first
    data = b"\x2f" + struct.pack("<I", sides) + (codes << 3).to_bytes(5, "little")
    chunk = b"VP8L" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def undocumented_files():
    """Yield images in formats that pillow or OpenCV decodes and this package does not."""
    image = Image.fromarray(np.zeros((32, 32, 3), np.uint8))
    for name in sorted({"TGA", "PPM", "PCX", "SGI", "ICO", "JPEG2000", "DDS", "IM"} - {*FORMATS}):
        file = io.BytesIO()
        image.save(file, name)
        yield name, file.getvalue()
    yield "Sun raster", struct.pack(">8I", 0x59A66A95, 32, 32, 24, 3072, 1, 0, 0) + bytes(3072)
    yield "Radiance HDR", b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 32 +X 32\n" + bytes(4096)
    yield "OpenEXR", b"\x76\x2f\x31\x01" + bytes(1024)


def _png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _resized_tiff(data, side):
    for tag in (256, 257):
        for kind in (3, 4):
            old = struct.pack("<HHII", tag, kind, 1, 64)
            data = data.replace(old, struct.pack("<HHII", tag, 4, 1, side))
    return data
