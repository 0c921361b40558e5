"""Pictures as text that a page holds itself."""

import io
from base64 import b64encode
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageChops
from torch import Tensor

_CURVES_DPI = 110
_PHOTOGRAPHS_DPI = 105
_THUMBNAIL_PX = 168
"""Longer side: sharp on a telephone, where each is half as wide."""
_COLOURS = 128


def curves(figure: Figure) -> str:
    """Return a figure of lines as a data URI."""
    image = _render(figure, _CURVES_DPI)
    # A palette takes a third of the bytes.
    return _data_uri(image.quantize(_COLOURS, dither=Image.Dither.NONE), "png", optimize=True)


def photographs(figure: Figure) -> str:
    """Return a figure of photographs as a data URI."""
    return _data_uri(_render(figure, _PHOTOGRAPHS_DPI), "jpeg", quality=80)


def thumbnail(image: Tensor) -> str:
    """Return a small copy of an image (3, H, W), uint8 RGB, as a data URI."""
    small = Image.fromarray(image.permute(1, 2, 0).numpy())  # (3, H, W) -> (H, W, 3)
    small.thumbnail((_THUMBNAIL_PX, _THUMBNAIL_PX))
    return _data_uri(small, "jpeg", quality=80)


def _render(figure: Figure, dpi: int) -> Image.Image:
    """Draw a figure once, where ``savefig`` does it twice, and cut off its white border."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    return image.crop(ImageChops.invert(image).getbbox())


def _data_uri(image: Image.Image, kind: str, **options: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"
