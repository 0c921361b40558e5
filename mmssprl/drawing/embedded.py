"""Figures and photographs inside an HTML page."""

import io
from base64 import b64encode
from itertools import chain
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from .style import own_style

_FIGURE_DPI = 105


def data_uri(picture: Figure | Image.Image, kind: Literal["jpeg", "svg"]) -> str:
    """Return a picture as a data URI."""
    buffer = io.BytesIO()
    if isinstance(picture, Image.Image):
        picture.save(buffer, kind, quality=80)
    else:
        options: Any = {"dpi": _FIGURE_DPI}
        if kind == "svg":  # equal figures give equal pages
            options["metadata"] = {"Date": None}
        with own_style(svg__hashsalt="mmssprl"):
            _lay_out(picture)
            picture.savefig(buffer, format=kind, **options)
    mime = "image/svg+xml" if kind == "svg" else "image/jpeg"
    return f"data:{mime};base64,{b64encode(buffer.getvalue()).decode()}"


def _lay_out(figure: Figure) -> None:
    """Place the parts of a figure, because savefig with a layout draws everything twice."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(_FIGURE_DPI)
        engine.execute(figure)
        figure.set_layout_engine(None)


def embedded(value: Any) -> Any:
    """Return figures and images as data URIs, other values as they are."""
    if isinstance(value, Figure):
        shown = chain.from_iterable(axes.images for axes in value.axes)
        has_photographs = any(np.asarray(image.get_array()).ndim == 3 for image in shown)
        return data_uri(value, "jpeg" if has_photographs else "svg")
    return data_uri(value, "jpeg") if isinstance(value, Image.Image) else value
