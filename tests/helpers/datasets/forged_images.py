"""Image files whose headers lie."""

import numpy as np
from helpers.datasets import blocks
from PIL import Image


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
