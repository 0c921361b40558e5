"""Objects on a picture, each with its box, its mask and, where there is room, its name.

Boxes are (left, top, right, bottom) in pixels of the picture.
"""

import colorsys
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from textwrap import wrap
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.font_manager import get_font
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from PIL.ImageFont import FreeTypeFont, truetype

Box = tuple[float, float, float, float]
Colour = tuple[int, int, int]

_FONT_PX = 14
_CAPTION_PX = 18
_PAD_PX = 2
_LINE_PX = 2
"""Width of the edges of a box."""
_GAP_PX = 8
"""White between two pictures, and between the entries of a legend."""
_MOST_HIDDEN = 0.25
"""Largest part of a box that a name may cover."""
_MASK_WEIGHT = 0.45
_GOLDEN_RATIO = 0.618034


class Named(NamedTuple):
    """An object to draw."""

    box: Box
    name: str  # of its class
    words: str = ""  # behind the name
    colour: Colour = (0, 0, 0)
    mask: NDArray[np.bool_] | None = None  # (H, W) of the picture


def class_colour(index: int) -> Colour:
    """Return a bright colour; classes with near indices have distant hues."""
    saturation = 0.55 if index % 2 else 0.95
    shares = colorsys.hsv_to_rgb(index * _GOLDEN_RATIO % 1, saturation, 1.0)
    red, green, blue = (round(255 * share) for share in shares)
    return red, green, blue


def draw_named(picture: NDArray[np.uint8], groups: Sequence[Sequence[Named]]) -> NDArray[np.uint8]:
    """Draw each group of objects on its own copy of a picture (H, W, 3), side by side.

    Objects that come first get their names first. A name is left out where it would cover another
    name or much of a box; a legend below the pictures then has the colour of its class.
    """
    sides = []
    unnamed: dict[str, Colour] = {}
    for objects in groups:
        side, places = _draw_boxes(picture, objects)
        sides.append(side)
        for each, place in zip(objects, places, strict=True):
            if place is None:
                unnamed[each.name] = each.colour

    joined = beside(sides)
    if not unnamed:
        return joined
    return np.concatenate([joined, legend(unnamed, joined.shape[1])])


def beside(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Join pictures of equal height from left to right, with a white gap."""
    first, *others = pictures
    gap = np.full((len(first), _GAP_PX, 3), 255, np.uint8)
    for other in others:
        first = np.concatenate([first, gap, other], axis=1)
    return first


def captioned(picture: NDArray[np.uint8], lines: Sequence[tuple[str, str]]) -> NDArray[np.uint8]:
    """Write lines, each a text and its colour, above a picture (H, W, 3); long ones wrap."""
    font = _font(_CAPTION_PX)
    width = picture.shape[1]
    most = max(1, int(width / font.getlength("n")))  # characters, of which n is a wide one
    short: list[tuple[str, str]] = []
    for text, colour in lines:
        short += [(part, colour) for part in wrap(text, most)]
    line_px = _size_of("", font)[1]

    strip = Image.new("RGB", (width, line_px * len(short)), "white")
    canvas = ImageDraw.Draw(strip)
    for i, (text, colour) in enumerate(short):
        canvas.text((_PAD_PX, i * line_px + _PAD_PX), text, colour, font)
    return np.concatenate([np.asarray(strip), picture])


def place_names(
    boxes: Sequence[Box], sizes: Sequence[tuple[int, int]], bounds: tuple[int, int]
) -> list[Box | None]:
    """Find a place for a name of each size (width, height) at its box, or None.

    A place is inside the picture of size ``bounds`` (width, height). It touches no name that was
    placed before, and covers at most a quarter of any box.
    """
    taken: list[Box] = []
    places: list[Box | None] = []
    for box, size in zip(boxes, sizes, strict=True):
        found = None
        for place in _candidates(box, size, bounds):
            is_free = not any(_overlap(place, other) for other in taken)
            if is_free and not any(_hides(place, other) for other in boxes):
                found = place
                taken.append(place)
                break
        places.append(found)
    return places


def _candidates(box: Box, size: tuple[int, int], bounds: tuple[int, int]) -> Iterator[Box]:
    """Yield places above, inside, below and beside a box, the usual ones first."""
    left, top, right, bottom = (round(edge) for edge in box)
    width, height = size
    corners = [
        (left, top - height),
        (right - width, top - height),
        (left, top),
        (left, bottom),
        (right - width, bottom),
        (right - width, top),
        (left, bottom - height),
        (right, top),
        (left - width, top),
    ]
    for y in range(top + height, bottom - 2 * height + 1, height):  # down the inner edges
        corners += [(left, y), (right - width, y)]
    for x, y in corners:
        x = min(max(x, 0), bounds[0] - width)
        if x >= 0 and 0 <= y <= bounds[1] - height:
            yield x, y, x + width, y + height


def _overlap(first: Box, second: Box) -> float:
    """Return the area that two boxes share."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(width, 0) * max(height, 0)


def _hides(name: Box, box: Box) -> bool:
    left, top, right, bottom = box
    return _overlap(name, box) > _MOST_HIDDEN * (right - left) * (bottom - top)


def _draw_boxes(
    picture: NDArray[np.uint8], objects: Sequence[Named]
) -> tuple[NDArray[np.uint8], list[Box | None]]:
    """Return a copy of a picture with objects, and the places of their names."""
    pixels = picture.copy()
    for each in objects:
        if each.mask is not None:
            shade = _MASK_WEIGHT * np.array(each.colour)
            pixels[each.mask] = (1 - _MASK_WEIGHT) * pixels[each.mask] + shade

    image = Image.fromarray(pixels)
    canvas = ImageDraw.Draw(image)
    font = _font(_FONT_PX)
    for each in reversed(objects):  # the first is on top
        canvas.rectangle([*each.box], outline=each.colour, width=_LINE_PX)

    texts = [f"{each.name} {each.words}".rstrip() for each in objects]
    sizes = [_size_of(text, font) for text in texts]
    places = place_names([each.box for each in objects], sizes, image.size)
    for each, text, place in zip(objects, texts, places, strict=True):
        if place is not None:
            canvas.rectangle([place[0], place[1], place[2] - 1, place[3] - 1], fill=each.colour)
            canvas.text((place[0] + _PAD_PX, place[1] + _PAD_PX), text, _ink_on(each.colour), font)
    return np.asarray(image), places


def legend(colours: dict[str, Colour], width: int) -> NDArray[np.uint8]:
    """Return a strip with the names of classes in their colours, in rows."""
    font = _font(_FONT_PX)
    sizes = {name: _size_of(name, font) for name in colours}
    line_px = _size_of("", font)[1] + _PAD_PX
    places = {}
    x = 0
    y = _PAD_PX
    for name, (name_px, _) in sizes.items():
        if x and x + name_px > width:
            x = 0
            y += line_px
        places[name] = (x, y)
        x += name_px + _GAP_PX

    strip = Image.new("RGB", (width, y + line_px), "white")
    canvas = ImageDraw.Draw(strip)
    for name, (x, y) in places.items():
        name_px, height = sizes[name]
        canvas.rectangle([x, y, x + name_px - 1, y + height - 1], fill=colours[name])
        canvas.text((x + _PAD_PX, y + _PAD_PX), name, _ink_on(colours[name]), font)
    return np.asarray(strip)


def missing_characters(names: Iterable[str]) -> list[str]:
    """Return the characters of names that pictures cannot show, such as Chinese ones."""
    known = get_font(_font_file()).get_charmap()
    used = {*chain.from_iterable(names)}
    return sorted(each for each in used if ord(each) not in known and not each.isspace())


def _font(px: int) -> FreeTypeFont:
    return truetype(_font_file(), px)


def _font_file() -> str:
    """Return the font of matplotlib, which has accents, Greek and Cyrillic."""
    return os.path.join(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf")


def _size_of(text: str, font: FreeTypeFont) -> tuple[int, int]:
    """Return width and height of a name with its ground; all names are equally high."""
    ascent, descent = font.getmetrics()
    return round(font.getlength(text)) + 2 * _PAD_PX, ascent + descent + 2 * _PAD_PX


def _ink_on(colour: Colour) -> str:
    """Return black or white, by the luminance of the ground."""
    red, green, blue = colour
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else "white"
