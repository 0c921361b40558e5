"""Choose the sizes of the views from the size of the images and the device."""

import math
from collections.abc import Mapping
from typing import Any

from ..errors import UserValueError
from ..pyramid import MOST_PX

FULL_SHORT_SIDE_PX = 256
"""Images at least this large on their short side are cut at the paper's sizes."""
CPU_SCALE = 0.5
"""Of the views on a CPU: a quarter of the pixels, and so of the work."""
SIZE_STEP_PX = 16
"""View sizes are multiples of it, as patch embeddings of transformers need."""


def choose_views(
    paper: Mapping[str, Any], short_side_px: int, on_gpu: bool, image_px: int | None
) -> tuple[dict[str, Any], str]:
    """Return the paper's views, dicts of ``ViewLayout``, scaled to images and device; and why.

    Args:
        paper: The views at full size.
        short_side_px: Typical shorter side of the images.
        on_gpu: Whether the training is on GPUs.
        image_px: Side of the image views, to which the others keep the paper's proportion; None
            chooses.

    Raises:
        ValueError: ``image_px`` is no multiple of 16 from 32 to 2048.
    """
    if image_px is None:
        scale = min(1.0, short_side_px / FULL_SHORT_SIDE_PX) * (1.0 if on_gpu else CPU_SCALE)
    elif image_px % SIZE_STEP_PX or not 2 * SIZE_STEP_PX <= image_px <= MOST_PX:
        raise UserValueError(
            f"image_px must be a multiple of {SIZE_STEP_PX} from {2 * SIZE_STEP_PX} to {MOST_PX}, "
            f"but got {image_px}; the nearest is {min(MOST_PX, _size(image_px))}."
        )
    else:
        scale = image_px / paper["image_px"]
    if scale == 1:
        return dict(paper), "the paper's sizes"
    layout = {
        **paper,
        "image_px": _size(paper["image_px"] * scale),
        "small_px": _size(paper["small_px"] * scale),
        "levels": [_scaled(level, scale) for level in paper["levels"]],
    }
    if image_px is not None:
        return layout, "as asked, the others in proportion"
    device = "GPU" if on_gpu else "CPU"
    return layout, f"sizes for {short_side_px} px photographs on a {device}"


def _scaled(level: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """Return a level with other patches, and its image in the same proportion to them."""
    patch_px = _size(level["patch_px"] * scale)
    resize_px = math.ceil(patch_px * level["resize_px"] / level["patch_px"])
    return {**level, "patch_px": patch_px, "resize_px": resize_px}


def _size(px: float) -> int:
    return max(2 * SIZE_STEP_PX, SIZE_STEP_PX * round(px / SIZE_STEP_PX))
