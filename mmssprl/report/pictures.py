"""Pictures as text that a page holds itself."""

import io
from base64 import b64encode

from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

_CURVES_DPI = 110
_PHOTOGRAPHS_DPI = 105
_QUALITY = {"quality": 80, "optimize": True}
_THUMBNAIL_PX = 168
"""Longer side: sharp on a telephone, where each is half as wide."""


def curves(figure: Figure) -> str:
    """Return a figure of lines as a data URI."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_CURVES_DPI)
    # Few colours: a palette takes a third of the bytes.
    image, small = Image.open(buffer).convert("RGB"), io.BytesIO()
    image.quantize(128, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return _data_uri(small, "png")


def photographs(figure: Figure) -> str:
    """Return a figure of photographs as a data URI."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="jpeg", dpi=_PHOTOGRAPHS_DPI, bbox_inches="tight", pil_kwargs=_QUALITY
    )
    return _data_uri(buffer, "jpeg")


def thumbnail(image: Tensor) -> str:
    """Return a small copy of an image (3, H, W), uint8 RGB, as a data URI."""
    small = Image.fromarray(image.permute(1, 2, 0).numpy())  # (3, H, W) -> (H, W, 3)
    small.thumbnail((_THUMBNAIL_PX, _THUMBNAIL_PX))
    buffer = io.BytesIO()
    small.save(buffer, "jpeg", **_QUALITY)
    return _data_uri(buffer, "jpeg")


def _data_uri(buffer: io.BytesIO, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"
