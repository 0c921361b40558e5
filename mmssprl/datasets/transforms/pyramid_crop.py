"""Cut one decoded image into the views of both pyramids.

Legend: H, W height and width of the image, P patches per view, N_g crops of resolution group g.
Arrays are (height, width, channel), the layout of the resize kernel.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from torch import Tensor
from torch.nn.functional import interpolate

from ...errors import UserValueError
from ...pyramid import NUM_PYRAMIDS, Area, PyramidLevel, ViewLayout, ViewSlot
from ...registry import TRANSFORMS

Place = tuple[float, float, float, float]
"""Left, top, right and bottom of a box in pixels of the image."""
Box = tuple[int, int, int, int]
"""Top, left, height and width of a box of whole pixels."""

_ASPECT = (3 / 4, 4 / 3)  # width / height of a random crop, torchvision's RandomResizedCrop

_NUM_TRIES = 10  # draws of area and aspect before the central crop, as in torchvision


@TRANSFORMS.register_module()
class PyramidCrop(BaseTransform):
    """Cut the image, small and patch views of a layout (V and V' of Section 3).

    Image and small views are independent RandomResizedCrops. Each patch level takes ONE
    RandomResizedCrop for both views, divides it into its grid, and visits rows and columns in a
    random order. Each view takes its own random crop inside the cell, so that patch p of both views
    shows the same cell. The shared crop and the order follow the released recipe; the paper does
    not describe them. A level with ``num_sampled`` visits only that many cells, drawn for each
    image and step: our extension.

    The preprocessor flips, recolours and blurs on the device. Resizing is bilinear and antialiased;
    an image smaller than a view is scaled up.

    **Required Keys:**

    - img (tensor (C, H, W) or array (H, W, C): uint8, usually RGB with C = 3, or float32)

    **Optional Keys:**

    - crop_seed (tuple of ints >= 0): Seed of the crops. By default each process, and so each loader
      worker, has a generator with ``torch.initial_seed()``.

    **Added Keys:**

    - inputs (list of tensors (N_g, C, px, px) of the image's type, one per ``ViewLayout.groups``):
      Ordered by slot, view and patch within a group. Channel-last in memory.
    - data_samples (dict, only ``with_places``): ``places`` is a list of float32 tensors (N_g, 4)
      in the same order: the box of the image that each crop shows, see ``functional.boxes``.

    **Deleted Keys:** all others.

    Args:
        layout: The views, a ``ViewLayout`` or a dict of its fields. Configs may omit it, because
            ``PretrainHook`` sets the model's before the first epoch.
        with_places: Return the box of each crop, for models that need it.

    Raises:
        ValueError: See ``ViewLayout``.
    """

    def __init__(
        self, layout: ViewLayout | Mapping | None = None, with_places: bool = False
    ) -> None:
        self._layout: ViewLayout | None = None
        if layout is not None:
            self.take_layout(layout)
        self.with_places = with_places
        self._process_seed: int | None = None
        self._process_rng = np.random.default_rng(0)

    @property
    def has_layout(self) -> bool:
        """Whether the layout is set."""
        return self._layout is not None

    @property
    def layout(self) -> ViewLayout:
        """The views. Raises ValueError if they are not set."""
        if self._layout is None:
            raise UserValueError(
                f"{type(self).__name__} needs a layout, which PretrainHook sets from model.layout; "
                "without this hook, give layout=..."
            )
        return self._layout

    def take_layout(self, layout: ViewLayout | Mapping) -> None:
        """Set the views."""
        self._layout = ViewLayout.build(layout)

    def transform(self, results: dict) -> dict[str, Any]:
        """Cut all views from ``results['img']``."""
        cropper = self.cropper_of(results)
        inputs = []
        places = []
        for group in self.layout.groups:
            # One array for all slots of a size, so that workers send fewer tensors.
            crops = cropper.empty(group.num_crops, group.px)
            shown: list[Place] = []
            for slot in group.slots:
                shown += self._cut(cropper, slot, crops[slot.start : slot.stop])
            inputs.append(torch.from_numpy(crops).permute(0, 3, 1, 2))  # (N_g, C, px, px), a view
            places.append(shown)
        if not self.with_places:
            return {"inputs": inputs}

        tensors = [torch.tensor(each, dtype=torch.float32) for each in places]
        return {"inputs": inputs, "data_samples": {"places": tensors}}

    def _cut(self, cropper: "Cropper", slot: ViewSlot, out: np.ndarray) -> list[Place]:
        """Fill ``out`` (V * P, px, px, 3) with the crops of one slot, and return their boxes."""
        if slot.role == "patch":
            level = self.layout.levels[slot.scale - 1]
            # (resize_px, resize_px, 3), shared by both views
            resized = cropper.random_resized_crop(level.area, level.resize_px)
            corners = _cut_patches(resized, level, cropper.rng, out)
            return _places_of_patches(corners, level, cropper.place) if self.with_places else []

        area = self.layout.image_area if slot.role == "image" else self.layout.small_area
        places = []
        for crop in out:  # (px, px, 3), written in place
            crop[:] = cropper.random_resized_crop(area, len(crop))
            places.append(cropper.place)
        return places

    def cropper_of(self, results: dict) -> "Cropper":
        """Return a ``Cropper`` of the image of a sample, with its seed."""
        return Cropper(as_array(results["img"]), self._rng(results))

    def _rng(self, results: dict) -> np.random.Generator:
        if "crop_seed" in results:
            return np.random.default_rng(results["crop_seed"])
        # Not made in __init__, because forked workers would inherit the same state.
        if self._process_seed != torch.initial_seed():
            self._process_seed = torch.initial_seed()
            self._process_rng = np.random.default_rng(self._process_seed)
        return self._process_rng

    def __repr__(self) -> str:
        return f"{type(self).__name__}(layout={self._layout})"


class Cropper:
    """RandomResizedCrop of one image (H, W, C); ``place`` is the box that the last crop shows."""

    def __init__(self, image: np.ndarray, rng: np.random.Generator) -> None:
        self.image = image
        self.rng = rng
        self.place: Place = (0, 0, 0, 0)
        self._buffer = np.empty(image.size, image.dtype)

    def empty(self, num: int, px: int) -> np.ndarray:
        """Return an array for crops (num, px, px, C)."""
        return np.empty((num, px, px, self.image.shape[2]), self.image.dtype)

    def random_resized_crop(self, area: Area, px: int) -> np.ndarray:
        """Return a random crop (px, px, C); ``area`` is its range as fractions of the image."""
        image_height, image_width, _ = self.image.shape
        return self.crop(draw_box(image_height, image_width, area, self.rng), (px, px))

    def crop(self, box: Box, size: tuple[int, int]) -> np.ndarray:
        """Return a box of the image, resized to ``size``: (height, width, C)."""
        top, left, height, width = box
        self.place = (left, top, left + width, top + height)

        # Copied to a contiguous channel-last batch of one, which the resize kernel takes as it is.
        # A slice would take twice the time, for two conversions of its layout.
        channels = self.image.shape[2]
        crop = self._buffer[: height * width * channels].reshape(1, height, width, channels)
        crop[0] = self.image[top : top + height, left : left + width]
        resized = interpolate(  # of (1, C, height, width)
            torch.from_numpy(crop).permute(0, 3, 1, 2), size, mode="bilinear", antialias=True
        )
        return resized[0].permute(1, 2, 0).numpy()


def as_array(image: Tensor | np.ndarray) -> np.ndarray:
    """Return a view (H, W, C) of an image, or raise ValueError for anything else."""
    array = np.moveaxis(image.numpy(), 0, -1) if isinstance(image, Tensor) else image
    if (
        not isinstance(array, np.ndarray)
        or array.dtype not in (np.uint8, np.float32)
        or array.ndim != 3
        or not array.size
    ):
        raise UserValueError(
            "img must be an image, a tensor (C, H, W) or array (H, W, C), uint8 or float32, "
            f"but got {type(image).__name__} {getattr(image, 'dtype', '')} "
            f"{tuple(getattr(image, 'shape', ()))}; read it with read_image."
        )
    return array


def draw_box(
    height: int,
    width: int,
    area: Area,
    rng: np.random.Generator,
    aspects: tuple[float, float] = _ASPECT,
) -> Box:
    """Draw top, left, height and width of a RandomResizedCrop, in pixels.

    If no draw of area and aspect fits into the image, take the largest central crop of a legal
    aspect.
    """
    low, high = aspects
    y, x = rng.random(2).tolist()  # position, as fractions of the free room

    # All tries in one call, because single draws take longer than copying the crop.
    for u, v in rng.random((_NUM_TRIES, 2)).tolist():
        # u picks the area in pixels, v the aspect: w * h = target and w / h = aspect.
        target = height * width * (area[0] + u * (area[1] - area[0]))
        aspect = low * (high / low) ** v
        w = round(math.sqrt(target * aspect))
        h = round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(y * (height - h + 1)), int(x * (width - w + 1)), h, w

    # All of the shorter side, and as much of the longer one as the aspect allows.
    w = min(width, max(1, round(height * high)))
    h = min(height, max(1, round(width / low)))
    return (height - h) // 2, (width - w) // 2, h, w


def _cut_patches(
    resized: np.ndarray, level: PyramidLevel, rng: np.random.Generator, out: np.ndarray
) -> list[tuple[int, int]]:
    """Fill ``out`` (2 * P, px, px, 3), view-major; return the top left pixel of each patch."""
    # ``resized`` (resize_px, resize_px, 3) has grid x grid cells of cell_px.
    # The P cells, then the same once more for the second view.
    cells = _draw_cells(level, rng) * NUM_PYRAMIDS
    slack = level.cell_px - level.patch_px  # largest offset of a patch in its cell
    inside = rng.integers(slack + 1, size=(len(cells), 2)).tolist()

    corners = []
    for crop, (row, column), (down, right) in zip(out, cells, inside, strict=True):
        y = level.cell_px * row + down
        x = level.cell_px * column + right
        crop[:] = resized[y : y + level.patch_px, x : x + level.patch_px]
        corners.append((y, x))
    return corners


def _places_of_patches(
    corners: list[tuple[int, int]], level: PyramidLevel, place: Place
) -> list[Place]:
    """Map the corners of patches from the resized crop at ``place`` to the image."""
    start, end = np.reshape(place, (2, 2))
    scale = (end - start) / level.resize_px
    low = np.flip(corners, axis=1)  # x and y
    ends = [start + low * scale, start + (low + level.patch_px) * scale]
    return np.concatenate(ends, axis=1).tolist()


def _draw_cells(level: PyramidLevel, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw row and column of the P cells of one image, all different."""
    # Lists, because numpy's loops over few numbers take longer than copying the pixels.
    if level.is_sampled:
        sampled = rng.permutation(level.num_cells)[: level.num_patches].tolist()
        return [divmod(cell, level.grid) for cell in sampled]
    rows = rng.permutation(level.grid).tolist()
    columns = rng.permutation(level.grid).tolist()
    return list(product(rows, columns))
