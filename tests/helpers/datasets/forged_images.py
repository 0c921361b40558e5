"""Image files that are damaged."""

import random

import numpy as np
from helpers.datasets import blocks
from PIL import Image

from mmssprl.datasets.image_reading import FORMATS, can_read


def encode(format, **options):
    """An image of noise of 24 x 24 px as a file: bytes."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    return blocks.encode(Image.fromarray(noise), format, **options)


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
