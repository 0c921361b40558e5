"""Boxes and masks in the colours of VOC's palette."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from .pictures import font

IGNORED = 255
"""The value of pixels that count nowhere."""
_OPACITY = 0.5
_WHITE = (255, 255, 255)


def palette() -> NDArray[np.uint8]:
    """Return VOC's colours (256, 3): the bits of an index, dealt out to red, green and blue."""
    index = np.arange(256)
    colours = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colours[:, channel] |= (((index >> (3 * bit + channel)) & 1) << (7 - bit)).astype(
                np.uint8
            )
    return colours


def colour(label: int) -> tuple[int, int, int]:
    """Return the colour of an object's class, never black."""
    red, green, blue = palette()[label % 254 + 1].tolist()
    return red, green, blue


def draw_boxes(
    picture: Image.Image,
    size: tuple[int, int],
    boxes: Sequence[tuple[float, ...]],
    labels: Sequence[int],
    texts: Sequence[str],
) -> Image.Image:
    """Return the picture of an image with boxes on it.

    Args:
        picture: The image in any size.
        size: Width and height of the image.
        boxes: Left, top, right and bottom in the image's pixels.
        labels: Their classes, which choose the colours.
        texts: What stands at each box.
    """
    canvas = picture.copy()
    draw = ImageDraw.Draw(canvas)
    scale = picture.width / size[0], picture.height / size[1]
    for box, label, text in zip(boxes, labels, texts, strict=True):
        left, top, right, bottom = (x * scale[i % 2] for i, x in enumerate(box))
        draw.rectangle((left, top, max(left, right), max(top, bottom)), None, colour(label), 2)
        where = draw.textbbox((left + 2, top + 1), text, font())
        draw.rectangle(where, colour(label))
        draw.text((left + 2, top + 1), text, _WHITE, font())
    return canvas


def overlay(picture: Image.Image, masks: Iterable[tuple[NDArray[np.uint8], int]]) -> Image.Image:
    """Return the picture with half-transparent masks (H, W) of objects, each with its class."""
    pixels = np.asarray(picture).astype(np.float32)
    for mask, label in masks:
        small = Image.fromarray(mask).resize(picture.size, Image.Resampling.NEAREST)
        inside = np.asarray(small) > 0
        pixels[inside] += _OPACITY * (np.array(colour(label)) - pixels[inside])
    return Image.fromarray(pixels.round().astype(np.uint8))


def overlay_labels(picture: Image.Image, labels: NDArray[np.uint8]) -> Image.Image:
    """Return the picture with a label image (H, W) on it: 0 stays as it is, 255 becomes white."""
    small = Image.fromarray(labels).resize(picture.size, Image.Resampling.NEAREST)
    index = np.asarray(small)
    colours = palette()
    colours[IGNORED] = _WHITE
    pixels = np.asarray(picture).astype(np.float32)
    inside = index > 0
    pixels[inside] += _OPACITY * (colours[index[inside]] - pixels[inside])
    return Image.fromarray(pixels.round().astype(np.uint8))
