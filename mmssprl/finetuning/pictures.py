"""Pictures of labels and predictions: captions, and sheets of pairs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from ..datasets import read_image
from ..system.outputs import whole_file

PICTURE_PX = 480
"""Longest side of an image in a picture."""
_TEXT_PX = 15
_LINE_PX = 20
_GAP_PX = 8
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)


def open_picture(path: str | Path, px: int = PICTURE_PX) -> Image.Image:
    """Return an image in RGB, as it is shown, its longest side ``px``, or half of it if small.

    Raises:
        ImageReadError: It cannot be read.
    """
    picture = Image.fromarray(read_image(path).permute(1, 2, 0).contiguous().numpy())  # (H, W, 3)
    scale = px / max(picture.size)
    if scale >= 1:
        scale = max(1.0, scale / 2)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BILINEAR)


def caption(picture: Image.Image, lines: Sequence[str]) -> Image.Image:
    """Return the picture with lines of text below it."""
    canvas = Image.new("RGB", (picture.width, picture.height + _LINE_PX * len(lines)), _WHITE)
    canvas.paste(picture, (0, 0))
    draw = ImageDraw.Draw(canvas)
    for row, line in enumerate(lines):
        draw.text((2, picture.height + _LINE_PX * row), line, _BLACK, font())
    return canvas


def legend(
    picture: Image.Image, entries: Sequence[tuple[str, tuple[int, int, int]]]
) -> Image.Image:
    """Return the picture with a line per name below it, each behind its colour."""
    canvas = caption(picture, [f"     {name}" for name, _ in entries])
    draw = ImageDraw.Draw(canvas)
    for row, (_, colour) in enumerate(entries):
        top = picture.height + _LINE_PX * row + 3
        draw.rectangle((2, top, 16, top + 13), colour)
    return canvas


def font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font of all texts."""
    return ImageFont.load_default(_TEXT_PX)


def sheet(pairs: Sequence[tuple[Image.Image, Image.Image]], heads: tuple[str, str]) -> Image.Image:
    """Return one picture of pairs side by side, two pairs in a row.

    Args:
        pairs: At least one.
        heads: What stands on the left and on the right of each pair.
    """
    pairs = [(caption_above(a, heads[0]), caption_above(b, heads[1])) for a, b in pairs]
    cells = [(a.width + b.width + 2 * _GAP_PX, max(a.height, b.height) + _GAP_PX) for a, b in pairs]
    width = max(cell[0] for cell in cells) + _GAP_PX
    rows = [range(i, min(i + 2, len(pairs))) for i in range(0, len(pairs), 2)]
    heights = [max(cells[i][1] for i in row) for row in rows]
    canvas = Image.new("RGB", (width * min(2, len(pairs)), sum(heights)), _WHITE)
    top = 0
    for row, height in zip(rows, heights, strict=True):
        for column, index in enumerate(row):
            left, right = pairs[index]
            canvas.paste(left, (column * width + _GAP_PX, top))
            canvas.paste(right, (column * width + 2 * _GAP_PX + left.width, top))
        top += height
    return canvas


def caption_above(picture: Image.Image, line: str) -> Image.Image:
    """Return the picture with a line of text above it."""
    canvas = Image.new("RGB", (picture.width, picture.height + _LINE_PX), _WHITE)
    canvas.paste(picture, (0, _LINE_PX))
    ImageDraw.Draw(canvas).text((2, 1), line, _BLACK, font())
    return canvas


def written_names(names: Sequence[str], suffix: str) -> dict[str, str]:
    """Map the name of each image to that of a file made of it, all different.

    The suffix replaces the image's own. It is added where images differ in their own alone, and
    where the result would be that of another image: of a.jpg, a.png and a.jpg.png.

    Args:
        names: Paths relative to the folder of the images.
        suffix: Of the files, with its dot.
    """
    stem_of = {name: name.rpartition(".")[0] for name in names}
    uses = Counter(stem_of.values())
    return {
        name: (name if uses[stem] > 1 or stem in stem_of else stem) + suffix
        for name, stem in stem_of.items()
    }


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture whole, in the format that the suffix names."""
    kind = {".png": "PNG", ".jpg": "JPEG"}[path.suffix]
    with whole_file(path, "wb") as file:
        picture.save(file, format=kind)
