"""Image files that are damaged, or of formats that are not read."""

import io
import random
import struct

import numpy as np
from helpers.datasets import blocks
from PIL import Image

from mmssprl.datasets.image_reading import FORMATS, can_read


def encode(format, **options):
    """An image of noise of 24 x 24 px as a file: bytes."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    return blocks.encode(Image.fromarray(noise), format, **options)


def jpeg(**options):
    return encode("JPEG", **options)


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
