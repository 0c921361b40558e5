"""Pictures of labels and predictions."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ..datasets import read_image
from ..system.outputs import whole_file

_MOST_PX = 1280
_CELL_PX = (800, 400)
"""Width and height of a picture in a sheet."""
_COLUMNS = 2


def open_picture(path: str | Path) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) in RGB, as it is shown."""
    return read_image(path).permute(1, 2, 0).contiguous().numpy()


def save_picture(picture: NDArray[np.uint8], path: Path) -> None:
    """Write a picture whole, as a JPEG, its longest side at most 1,280 pixels."""
    image = Image.fromarray(picture)
    image.thumbnail((_MOST_PX, _MOST_PX))
    with whole_file(path, "wb") as file:
        image.save(file, format="JPEG")


def save_sheet(pictures: Sequence[NDArray[np.uint8]], path: Path) -> None:
    """Write pictures in two columns, at least one, as a PNG."""
    width, height = _CELL_PX
    num_rows = -(-len(pictures) // _COLUMNS)
    canvas = Image.new("RGB", (_COLUMNS * width, num_rows * height), "white")
    for number, picture in enumerate(pictures):
        row, column = divmod(number, _COLUMNS)
        cell = ImageOps.pad(Image.fromarray(picture), _CELL_PX, color="white")
        canvas.paste(cell, (column * width, row * height))
    with whole_file(path, "wb") as file:
        canvas.save(file, format="PNG")


def written_names(names: Sequence[str], suffix: str) -> dict[str, str]:
    """Map the name of each image to that of a file made of it, all different.

    ``suffix`` replaces the image's own. It is added where images differ in their own alone, and
    where the result would be that of another image: of a.jpg, a.png and a.jpg.png.
    """
    stem_of = {name: name.rpartition(".")[0] for name in names}
    uses = Counter(stem_of.values())
    return {
        name: (name if uses[stem] > 1 or stem in stem_of else stem) + suffix
        for name, stem in stem_of.items()
    }
