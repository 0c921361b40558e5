"""One image's whole pyramid of views, before and after augmentation.

Legend: V views, P patches per view, px side of a crop, N_g crops in resolution group g.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import DefaultScope
from numpy.typing import NDArray
from torch import Tensor

from ...config.build_errors import explain_build_errors
from ...config.layouts import hand_on_layout
from ...config.reading import read_config_file
from ...console.paths import check_path
from ...datasets import stack_views
from ...datasets.channel_images import as_picture, read_as
from ...drawing.sheets import Tile, draw_grid, outlined, picture
from ...drawing.style import INK, PYRAMIDS
from ...errors import UserValueError
from ...models import is_pretraining
from ...models.protocol import Region
from ...pyramid import PyramidLevel, ViewSlot
from ...registry import MODELS, TRANSFORMS, class_of

_CELL_INCHES = 2.0
_GAP = 0.04
_NAMES = ("V", "V'")
_SMALL = "#1b9e77"


@dataclass(frozen=True)
class DrawnSlot:
    """The crops of one role, uint8 (V, P, px, px, 3), cut and augmented.

    Their boxes in the image are (V, P, 4), or (V, 0, 4) for crops that are pasted elsewhere. Where
    all cells of a level are cut, patches have the order of the image, row by row.
    """

    slot: ViewSlot
    level: PyramidLevel | None  # of patches
    regions: Sequence[Region]  # in what is seen of image views
    cut: NDArray[np.uint8]
    augmented: NDArray[np.uint8]
    boxes: NDArray[np.floating]


def draw_views(config: str | Path | Config, image: str | Path | Tensor) -> Figure:
    """Draw where the views of an image are, what is cut, and what the backbone sees.

    One row per scale (and one for small views), from the config's own data pipeline and
    preprocessor. Patches are arranged as in the image; where a level samples its cells, by their
    index, the same in both views. Boxes that the method reads in a view are marked there. This
    image, a file or (3, H, W) in uint8 RGB, replaces the others of a batch, such as the images
    behind pasted crops.
    """
    cfg = config if isinstance(config, Config) else read_config_file(config)
    if not isinstance(image, Tensor):
        image = read_as(check_path(image, "image", file="an image file"), cfg)
    rows = []
    for drawn in cut_views(cfg, image):
        row = [_boxes_tile(image, drawn)]
        if drawn.slot.role == "small":
            row += [_small_tile(drawn.cut, "cut"), _small_tile(drawn.augmented, "augmented")]
        else:
            row += _view_tiles(drawn.cut, "cut", ())
            row += _view_tiles(drawn.augmented, "augmented", drawn.regions)
        rows.append(row)
    size = f"{image.shape[2]} x {image.shape[1]} px"
    title = f"{Path(cfg.filename).stem}: the views of an image of {size}"
    return draw_grid(rows, title, side_inches=_CELL_INCHES)


def cut_views(cfg: Config, pixels: Tensor) -> list[DrawnSlot]:
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
        torch.manual_seed(0)
        transforms = [TRANSFORMS.build(spec) for spec in pipeline]
        placing = [TRANSFORMS.build(_with_places(spec)) for spec in pipeline]
        model = MODELS.build(cfg.model)

    sample = _make_sample(transforms, pixels)
    placed = _make_sample(placing, pixels)
    places = placed.get("data_samples", {}).get("places")  # not of pasted crops
    preprocessor = model.data_preprocessor
    with torch.no_grad():
        batch = preprocessor(stack_views([sample]), training=True)
        augmented, regions = model.shown(batch["inputs"], batch.get("data_samples"))

    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (preprocessor.mean, preprocessor.std))
    slots = []
    for i, (group, cut, seen) in enumerate(
        zip(model.layout.groups, sample["inputs"], augmented, strict=True)
    ):
        pictures = [as_picture(cut), as_picture(seen[:, 0] * std + mean, cut)]
        boxes = None if places is None else places[i]
        for slot in group.slots:
            level = model.layout.levels[slot.scale - 1] if slot.role == "patch" else None
            marked = regions if slot.role == "image" else ()
            slots.append(_drawn_slot(slot, level, marked, pictures, boxes))
    return sorted(slots, key=lambda drawn: (drawn.slot.scale, drawn.slot.role == "small"))


def _drawn_slot(
    slot: ViewSlot,
    level: PyramidLevel | None,
    regions: Sequence[Region],
    pictures: Sequence[Tensor],
    places: Tensor | None,
) -> DrawnSlot:
    """Take the crops of a slot from its group: pictures (N_g, 3, px, px) and places (N_g, 4)."""
    part = slice(slot.start, slot.stop)
    shape = (slot.num_views, slot.num_patches)
    # (V P, 3, px, px) -> (V, P, px, px, 3), as pictures are drawn.
    own = [x[part].unflatten(0, shape).permute(0, 1, 3, 4, 2).numpy() for x in pictures]
    if places is None:
        own.append(np.empty((slot.num_views, 0, 4)))
    else:
        own.append(places[part].unflatten(0, shape).numpy())
        own = _in_place(own) if level and not level.is_sampled else own
    return DrawnSlot(slot, level, regions, *own)


def _small_tile(views: NDArray[np.uint8], what: str) -> Tile:
    tiles = mosaic(views[:, 0], columns=max(2, -(-len(views) // 2)))
    return Tile(tiles, f"small views, {what}", "", _SMALL)


def _view_tiles(views: NDArray[np.uint8], what: str, regions: Sequence[Region]) -> list[Tile]:
    """Return a tile of each view, with the boxes that a method reads in it."""
    found = []
    for view, (crops, colour) in enumerate(zip(views, PYRAMIDS, strict=True)):
        tiles = mosaic(crops, math.ceil(len(crops) ** 0.5))
        own = [region for region in regions if region.view == view]
        for region, edge in zip(own, (colour, INK), strict=False):
            tiles = outlined(tiles, region.boxes[0].tolist(), edge)
        names = ", in black ".join(region.name for region in own)
        found.append(Tile(tiles, f"{_NAMES[view]}, {what}", names, colour))
    return found


def _with_places(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transform's config that also returns the box of each crop, if it can."""
    kind = class_of(spec["type"], TRANSFORMS)
    can = kind is not None and "with_places" in signature(kind).parameters
    return {**spec, "with_places": True} if can else {**spec}


def _make_sample(transforms: Sequence[Any], pixels: Tensor) -> dict[str, Any]:
    """Return the sample of an image, cut in the same way by each call."""
    results: dict[str, Any] = {"img": pixels, "img_path": "", "crop_seed": (0, 0, 0)}
    for transform in transforms:
        results = transform(results)
    return results


def _boxes_tile(pixels: Tensor, drawn: DrawnSlot) -> Tile:
    """Return the image with the boxes of a role and scale, and their sizes in words."""
    slot = drawn.slot
    px = drawn.cut.shape[2]
    image = picture(pixels)
    colours = (_SMALL,) * slot.num_views if slot.role == "small" else PYRAMIDS
    for boxes, colour in zip(drawn.boxes, colours, strict=True):
        image = outlined(image, boxes, colour)
    title, detail = {
        "image": ("Image views", f"crops of {px} px"),
        "small": ("Small views", f"{slot.num_views} crops of {px} px"),
        "patch": (f"Level {slot.scale}", ""),
    }[slot.role]
    if level := drawn.level:
        sampled = f"{level.num_sampled} of " if level.is_sampled else ""
        detail = f"{sampled}{level.grid} x {level.grid} patches, {px} px"
    return Tile(image, title, detail)


def _in_place(patches: list[NDArray]) -> list[NDArray]:
    """Sort patches (V, P, ...), the last of them boxes, as in the image, row by row."""
    *_, boxes = patches
    side = math.isqrt(boxes.shape[1])
    orders = []
    for x, y in (boxes[..., :2] + boxes[..., 2:]).swapaxes(1, 2):  # twice the centres, (P,) each
        rows = y.argsort().reshape(side, side)
        orders.append(np.concatenate([row[x[row].argsort()] for row in rows]))
    views = np.arange(len(orders))[:, None]
    return [each[views, orders] for each in patches]


def mosaic(tiles: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Lay tiles (M, px, px, 3) out row by row, a gap between them."""
    px = tiles.shape[1]
    gap = max(1, round(_GAP * px))
    step = px + gap
    rows = -(-len(tiles) // columns)
    canvas = np.full((rows * step - gap, columns * step - gap, 3), 255, np.uint8)
    for i, tile in enumerate(tiles):
        top = i // columns * step
        left = i % columns * step
        canvas[top : top + px, left : left + px] = tile
    return canvas
