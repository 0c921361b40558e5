"""Scale the views of a recipe's base to images and device."""

import math
import re
from collections.abc import Mapping
from typing import Any

from ..errors import UserValueError
from ..pyramid import MOST_PX, ViewLayout

FULL_SHORT_SIDE_PX = 256
"""Images with at least this short side get the paper's views."""
CPU_SCALE = 0.5
"""Scale of views on a CPU: a quarter of the pixels, and of the work."""
SIZE_STEP_PX = 16
"""View sizes are multiples of it, as patch embeddings need."""


def views_text(layout: ViewLayout) -> str:
    """Format views as ``2 x 224 px, 6 x 96 px``."""
    views = [f"2 x {layout.image_px} px"]
    if layout.num_small:
        views.append(f"{layout.num_small} x {layout.small_px} px")
    for level in layout.levels:
        out_of = f" of {level.num_cells}" if level.is_sampled else ""
        views.append(f"2 x {level.num_patches}{out_of} x {level.patch_px} px")
    return ", ".join(views)


def choose_views(
    own: dict[str, Any],
    paper_px: int,
    short_side_px: int,
    on_gpu: bool,
    image_px: int | None,
    step_px: int,
) -> tuple[dict[str, Any], str]:
    """Return the views ``own`` scaled to images and device, as fields of ``ViewLayout``; and why.

    Without ``image_px`` the image views have the paper's side, less for images of a small shorter
    side, and half of it on a CPU. All sides are multiples of ``step_px``.
    """
    if image_px is None:
        scale = min(1.0, short_side_px / FULL_SHORT_SIDE_PX) * (1.0 if on_gpu else CPU_SCALE)
        image_px = _size(paper_px * scale, step_px)
        device = "GPU" if on_gpu else "CPU"
        reason = f"sizes for {short_side_px} px photographs on a {device}"
    elif image_px % step_px or not 2 * step_px <= image_px <= MOST_PX:
        most = MOST_PX // step_px * step_px
        raise UserValueError(
            f"image_px must be a multiple of {step_px} from {2 * step_px} to {most}, "
            f"but got {image_px}; the nearest is {min(most, _size(image_px, step_px))}."
        )
    else:
        reason = "as asked, the others in proportion"
    if image_px == own["image_px"] and step_px == SIZE_STEP_PX:
        return own, reason
    scale = image_px / own["image_px"]
    levels = [_scaled(level, scale, step_px) for level in own["levels"]]
    small_px = _size(own["small_px"] * scale, step_px)
    return {**own, "image_px": image_px, "small_px": small_px, "levels": levels}, reason


def _scaled(level: Mapping[str, Any], scale: float, step_px: int) -> dict[str, Any]:
    """Return a level with scaled patches, and the image resized in proportion."""
    patch_px = _size(level["patch_px"] * scale, step_px)
    resize_px = math.ceil(patch_px * level["resize_px"] / level["patch_px"])
    return {**level, "patch_px": patch_px, "resize_px": resize_px}


def _size(px: float, step_px: int) -> int:
    return max(2 * step_px, step_px * round(px / step_px))


def size_step(backbone: str) -> int:
    """Return the step of view sizes: about 16 px, in whole patches by the name in timm."""
    found = re.search(r"_patch(\d+)", backbone)
    patch = int(found[1]) if found else SIZE_STEP_PX
    return patch * max(1, round(SIZE_STEP_PX / patch))
