"""One image's whole pyramid of views, before and after augmentation.

Legend: V views, P patches per view, px side of a crop, N_g crops in resolution group g.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from mmengine.config import Config
from mmengine.registry import DefaultScope
from numpy.typing import NDArray
from torch import Tensor

from ..config.build_errors import explain_build_errors
from ..config.pretrain_checks import hand_on_layout
from ..config.reading import read_config_file
from ..console.paths import check_path
from ..console.style import MUTED, PYRAMIDS, RC, titled_figure
from ..datasets import stack_views
from ..datasets.channel_images import as_picture, read_as
from ..errors import UserValueError
from ..models import is_pretraining
from ..models.protocol import Region
from ..pixels import Pixels
from ..pyramid import PyramidLevel, ViewSlot
from ..registry import MODELS, TRANSFORMS

_CELL_INCHES = 2.3
_GAP = 0.04
_BORDER = 0.15  # of a crop's side, where resizing bends a ramp
_NAMES = ("V", "V'")
_SMALL = "#1b9e77"
_LINES = ("solid", "dashed")  # of the first and of the second kind of regions in a view


@dataclass(frozen=True)
class DrawnSlot:
    """The crops of one role: uint8 (V, P, px, px, 3) cut and seen, boxes (V, P, 4) in the image."""

    slot: ViewSlot
    level: PyramidLevel | None  # of patches
    cut: NDArray[np.uint8]
    augmented: NDArray[np.uint8]
    boxes: NDArray[np.float64]
    regions: Sequence[Region] = ()  # in what is seen of image views


def draw_views(config: str | Path | Config, image: str | Path | Tensor) -> Figure:
    """Draw where the views of an image lie, what is cut, and what the backbone sees.

    One row per scale (and one for small views), from the config's own data pipeline and
    preprocessor. Patches are laid out as they lie in the image; the number is their index p, which
    is random and the same in both views. Those of a level that samples its cells are laid out by p.
    Boxes that the method reads in a view are marked there. This image stands in for others of a
    batch, such as those behind pasted crops.

    Args:
        config: Pre-training config whose pipeline cuts with ``PyramidCrop``.
        image: Image file, or its pixels (3, H, W), uint8 RGB.
    """
    cfg = config if isinstance(config, Config) else read_config_file(config)
    if isinstance(image, Tensor):
        pixels = image
    else:
        pixels = read_as(check_path(image, "image", file="an image file"), Pixels.of_config(cfg))
    slots = cut_views(cfg, pixels)
    title = f"{Path(cfg.filename).stem}: the views of {pixels.shape[2]} x {pixels.shape[1]} px"
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        width, height = 5 * _CELL_INCHES + 0.9, len(slots) * _CELL_INCHES + 0.8
        figure = titled_figure(width, height, title)
        grid = figure.add_gridspec(len(slots), 5)
        for row, drawn in enumerate(slots):
            _draw_boxes(figure.add_subplot(grid[row, 0]), pixels, drawn)
            stages = ((1, "cut", drawn.cut), (3, "augmented", drawn.augmented))
            for first, what, crops in stages:
                if drawn.slot.role == "small":
                    axes = figure.add_subplot(grid[row, first : first + 2])
                    _draw_mosaic(axes, crops[:, 0], columns=max(2, -(-len(crops) // 2)))
                    axes.set_title(f"small views, {what}", color=_SMALL)
                    continue
                for view in range(2):
                    axes = figure.add_subplot(grid[row, first + view])
                    axes.set_title(f"{_NAMES[view]}, {what}", color=PYRAMIDS[view])
                    order = _in_place(drawn)[view]
                    names = [str(p) for p in order] if len(order) > 1 else None
                    _draw_mosaic(axes, crops[view][order], math.ceil(len(order) ** 0.5), names)
                    if what == "augmented":
                        _draw_regions(axes, drawn.regions, view)
    return figure


def cut_views(cfg: Config, pixels: Tensor, *, seed: int = 0) -> list[DrawnSlot]:
    """Run a config's pipeline and preprocessor on one image (3, H, W), uint8 RGB.

    There is an entry per role and scale: image views, small views, then the levels.
    """
    hand_on_layout(cfg)
    pipeline = (cfg.get("train_dataloader") or {}).get("dataset", {}).get("pipeline")
    if not pipeline or not is_pretraining(cfg) or "layout" not in cfg.model:
        raise UserValueError(
            "the config must have train_dataloader.dataset.pipeline and a pre-training model with "
            f"a layout, but {cfg.filename} does not; pass a pre-training config."
        )
    with (
        torch.random.fork_rng(devices=[]),
        DefaultScope.overwrite_default_scope("mmssprl"),
        explain_build_errors(cfg),
    ):
        torch.manual_seed(seed)
        transforms = [TRANSFORMS.build(spec) for spec in pipeline]
        model = MODELS.build(cfg.model)

    def sample_of(image: Tensor) -> dict[str, Any]:
        results = {"img": image, "img_path": "", "crop_seed": (seed, 0, 0)}
        for transform in transforms:
            results = transform(results)
        return results

    sample = sample_of(pixels)
    boxes = crop_boxes(lambda image: sample_of(image)["inputs"], pixels.shape[1], pixels.shape[2])
    preprocessor = model.data_preprocessor
    with torch.no_grad():
        batch = preprocessor(stack_views([sample]), training=True)
        augmented, regions = model.shown(batch["inputs"], batch.get("data_samples"))
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (preprocessor.mean, preprocessor.std))
    slots = []
    groups = model.layout.groups
    for group, cut, seen, places in zip(groups, sample["inputs"], augmented, boxes, strict=True):
        pictures = as_picture(cut), as_picture(seen[:, 0] * std + mean, cut)
        for slot in group.slots:
            # (V P, 3, px, px) -> (V, P, px, px, 3), as pictures are drawn.
            part, shape = slice(slot.start, slot.stop), (slot.num_views, slot.num_patches)
            level = model.layout.levels[slot.scale - 1] if slot.role == "patch" else None
            own = [x[part].unflatten(0, shape).permute(0, 1, 3, 4, 2).numpy() for x in pictures]
            marked = regions if slot.role == "image" else ()
            slots.append(
                DrawnSlot(slot, level, own[0], own[1], places[part].reshape(*shape, 4), marked)
            )
    return sorted(slots, key=lambda drawn: (drawn.slot.scale, drawn.slot.role == "small"))


def crop_boxes(
    crop: Callable[[Tensor], list[Tensor]], height: int, width: int
) -> list[NDArray[np.float64]]:
    """Find the boxes that ``crop`` cuts from images of one size, exact to about 1 % of the image.

    It is given an image whose red channel rises with x and whose green channel rises with y; a
    crop of it tells its own place. Where a canvas does not show the image the blue channel is
    black. ``crop`` gives uint8 crops (N_g, 3, px, px) of each group, unflipped; their boxes
    (N_g, 4) are left, top, right, bottom in pixels.
    """
    ramp = torch.full((3, height, width), 255.0)
    # Pixel i of n is centred at (i + 0.5) / n of the side; 256 levels over the side.
    ramp[0] = 256 * (torch.arange(width) + 0.5) / width - 0.5
    ramp[1] = (256 * (torch.arange(height) + 0.5) / height - 0.5)[:, None]
    boxes = []
    for crops in crop(ramp.round().clamp(0, 255).to(torch.uint8)):
        found = []
        for each in crops.numpy():
            shown = each[2] > 127
            shares = (each[:2][:, shown.any(axis=1)][:, :, shown.any(axis=0)] + 0.5) / 256
            left, right = _ends(shares[0].mean(axis=0))
            top, bottom = _ends(shares[1].mean(axis=1))
            found.append([left * width, top * height, right * width, bottom * height])
        boxes.append(np.array(found))
    return boxes


def _ends(profile: NDArray[np.float64]) -> tuple[float, float]:
    """Fit a line to a profile (n,) and return its values at both edges of what is shown."""
    centres = (np.arange(len(profile)) + 0.5) / len(profile)
    inner = (centres > _BORDER) & (centres < 1 - _BORDER)
    slope, offset = np.polyfit(centres[inner], profile[inner], 1)
    return float(offset.clip(0, 1)), float((offset + slope).clip(0, 1))


def outline(
    axes: Axes, box: Sequence[float], colour: str, width: float = 1.6, style: str = "solid"
) -> None:
    """Draw a box of an image, left, top, right and bottom; a colour stands on a white edge."""
    left, top, right, bottom = box
    frame = Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=colour)
    edge = [withStroke(linewidth=width + 1.4, foreground="white")] * (colour != "white")
    frame.set(linewidth=width, linestyle=style, path_effects=edge)
    axes.add_patch(frame)


def _draw_boxes(axes: Axes, pixels: Tensor, drawn: DrawnSlot) -> None:
    slot = drawn.slot
    axes.imshow(as_picture(pixels).permute(1, 2, 0).numpy())
    _hide_frame(axes)
    colours = (_SMALL,) * slot.num_views if slot.role == "small" else PYRAMIDS
    for view, colour in enumerate(colours):
        for box in drawn.boxes[view]:
            outline(axes, box, colour)
    px, level = drawn.cut.shape[2], drawn.level
    title, detail = {
        "image": ("Image views", f"{px} px"),
        "small": ("Small views", f"{slot.num_views} of {px} px"),
        "patch": (f"Level {slot.scale}", ""),
    }[slot.role]
    if level:
        sampled = f"{level.num_sampled} of " if level.is_sampled else ""
        detail = f"{sampled}{level.grid} x {level.grid} patches of {px} px"
    axes.set_title(title)
    axes.set_xlabel(f"s = {slot.scale}, {detail}", color=MUTED, loc="left")


def _draw_regions(axes: Axes, regions: Sequence[Region], view: int) -> None:
    """Mark the boxes of a view, each kind in a line of its own, and name the lines below."""
    of_view = [region for region in regions if region.view == view]
    names = []
    for region, style in zip(of_view, _LINES, strict=False):
        names.append(f"{style}: {region.name}")
        for box in region.boxes[0].tolist():
            # Pixel i is drawn from i - 0.5 to i + 0.5.
            outline(axes, [side - 0.5 for side in box], PYRAMIDS[view], 1.2, style)
    axes.set_xlabel(", ".join(names), color=MUTED, loc="left")


def _in_place(drawn: DrawnSlot) -> list[list[int]]:
    """Order each view's patches as they lie in the image, row by row, if all cells are cut."""
    num = drawn.boxes.shape[1]
    if drawn.level and drawn.level.is_sampled:
        return [list(range(num))] * len(drawn.boxes)
    side = round(num**0.5)
    orders = []
    for boxes in drawn.boxes:  # (P, 4)
        x, y = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
        rows = np.argsort(y).reshape(side, side)
        orders.append([int(p) for row in rows for p in row[np.argsort(x[row])]])
    return orders


def _draw_mosaic(
    axes: Axes, tiles: NDArray[np.uint8], columns: int, names: list[str] | None = None
) -> None:
    canvas, corners = mosaic(tiles, columns)
    axes.imshow(canvas)
    style: dict[str, Any] = {"va": "top", "color": "white", "fontsize": 7}
    style["path_effects"] = [withStroke(linewidth=2, foreground="black")]
    inside = 0.06 * tiles.shape[1]
    for name, (left, top) in zip(names or [], corners, strict=False):
        axes.text(left + inside, top + inside, name, **style)
    _hide_frame(axes)


def mosaic(
    tiles: NDArray[np.uint8], columns: int
) -> tuple[NDArray[np.uint8], list[tuple[int, int]]]:
    """Lay tiles (M, px, px, 3) out row by row, a gap between them; with left and top of each."""
    px = tiles.shape[1]
    gap = max(1, round(_GAP * px))
    step, rows = px + gap, -(-len(tiles) // columns)
    canvas = np.full((rows * step - gap, columns * step - gap, 3), 255, np.uint8)
    corners = [(i % columns * step, i // columns * step) for i in range(len(tiles))]
    for tile, (left, top) in zip(tiles, corners, strict=True):
        canvas[top : top + px, left : left + px] = tile
    return canvas, corners


def _hide_frame(axes: Axes) -> None:
    # To the upper left of its cell, so that the titles of a row stand on one line.
    axes.set(anchor="NW", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
