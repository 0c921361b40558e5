"""Layout of the views that are cut from an image.

Legend: V views per image, P patches per view, B images per rank, s scale (0 is the whole image).
"""

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from .errors import UserTypeError, UserValueError

Area = tuple[float, float]
Role = Literal["image", "small", "patch"]

NUM_PYRAMIDS = 2
"""The two views V and V' of the paper, which predict each other at every scale."""
MOST_PX = 2048
"""Largest side of a view. A batch of larger ones exceeds the memory of most machines."""


def _check_area(name: str, area: Sequence[float]) -> Area:
    if len(area) != 2 or not 0 < area[0] <= area[1] <= 1:
        raise UserValueError(
            f"{name} must be (low, high) with 0 < low <= high <= 1, but got {tuple(area)}; "
            "it is the share of the image's area that a crop covers."
        )
    return float(area[0]), float(area[1])


def check_px(
    name: str, value: int, most: float = MOST_PX, least: int = 1, unit: str = "pixels"
) -> None:
    """Raise ValueError if ``value`` is not an int from ``least`` to ``most``."""
    if not isinstance(value, int) or not least <= value <= most:
        rule = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise UserValueError(f"{name} must be {rule} {unit}, but got {value!r}.")


@dataclass(frozen=True)
class PyramidLevel:
    """One patch scale: resize the image, divide it into a grid, and crop a patch from each cell.

    Cells are squares of ``resize_px // grid`` pixels, from the top left corner. The remaining
    ``resize_px % grid`` pixels at the right and the bottom belong to no cell. In the released
    recipe, 383 px in a 3x3 grid make cells of 127 px, and 2 px remain.

    Args:
        grid: Cells per side, at least 2. There are M_s = grid ** 2 patches.
        resize_px: Side of the square that the RandomResizedCrop of this level produces.
        patch_px: Side of the random crop inside each cell, at most one cell.
        area: Share of the image's area that the RandomResizedCrop covers. Released code: 0.6-1.
        num_sampled: Number of cells to crop per image and step, from 1 to grid ** 2: a random
            subset, the same in both views. None, as in the paper, crops all cells, like grid ** 2.
            Fewer cells are an extension of this package, not in the paper: embeddings, queues and
            loss terms have this many patches instead of M_s.
    """

    grid: int
    resize_px: int
    patch_px: int
    area: Area = (0.6, 1.0)
    num_sampled: int | None = None

    @property
    def num_cells(self) -> int:
        """M_s of the paper, the number of cells in the grid."""
        return self.grid**2

    @property
    def num_patches(self) -> int:
        """Patches per view: one per cell, or ``num_sampled``."""
        return self.num_cells if self.num_sampled is None else self.num_sampled

    @property
    def is_sampled(self) -> bool:
        """Whether some cells are skipped."""
        return self.num_patches < self.num_cells

    @property
    def cell_px(self) -> int:
        """Side of one grid cell in pixels."""
        return self.resize_px // self.grid

    def validate(self, name: str) -> None:
        """Raise ValueError if the sizes contradict each other."""
        check_px(f"{name}: resize_px", self.resize_px, math.inf)
        check_px(f"{name}: patch_px", self.patch_px)
        _check_area(f"{name}: area", self.area)
        check_px(f"{name}: grid", self.grid, math.inf, 2, "cells per side")
        if self.cell_px < self.patch_px:
            raise UserValueError(
                f"{name}: resize_px // grid = {self.cell_px} must be >= patch_px, "
                f"but got patch_px={self.patch_px}; "
                f"raise resize_px to at least {self.patch_px * self.grid}."
            )
        check_px(f"{name}: num_sampled", self.num_patches, self.num_cells, 1, "cells")


@dataclass(frozen=True)
class ViewSlot:
    """V x P consecutive crops with the same role in a group, view-major."""

    role: Role
    scale: int
    num_views: int
    num_patches: int
    start: int

    @property
    def stop(self) -> int:
        """Index after the last crop of the slot."""
        return self.start + self.num_views * self.num_patches


@dataclass(frozen=True)
class ViewGroup:
    """Consecutive crops of the same size, which share a packed tensor and a backbone pass."""

    px: int
    slots: tuple[ViewSlot, ...]

    @property
    def num_crops(self) -> int:
        """Crops per image in this group."""
        return self.slots[-1].stop


@dataclass(frozen=True)
class ViewLayout:
    """The views of both pyramids, which the transform cuts and the model expects.

    Args:
        image_px: Side of the two image views (scale 0).
        image_area: Share of the image's area that an image view covers. Released code: 0.14-1.
        num_small: Small views per image (multi-crop as in SwAV). Paper: 0. Released code: 6.
        small_px: Side of a small view.
        small_area: Share of the image's area that a small view covers. Released code: 0.05-0.14.
        levels: Patch scales s = 1..S; empty for the SwAV baseline.

    Raises:
        ValueError: Sizes or shares are out of range or contradict each other.
        TypeError: A level is neither a ``PyramidLevel`` nor a dict of its fields.
    """

    image_px: int = 224
    image_area: Area = (0.14, 1.0)
    num_small: int = 0
    small_px: int = 96
    small_area: Area = (0.05, 0.14)
    levels: tuple[PyramidLevel, ...] = field(
        default=(PyramidLevel(2, 314, 112), PyramidLevel(3, 383, 96))
    )

    def __post_init__(self) -> None:
        levels = []
        for i, level in enumerate(self.levels):
            if not isinstance(level, PyramidLevel):
                level = _from_mapping(PyramidLevel, level, f"levels[{i}]")
            level.validate(f"levels[{i}]")
            levels.append(level)

        object.__setattr__(self, "levels", tuple(levels))
        check_px("image_px", self.image_px)
        object.__setattr__(self, "image_area", _check_area("image_area", self.image_area))
        check_px("num_small", self.num_small, math.inf, 0, "small views")
        check_px("small_px", self.small_px)
        object.__setattr__(self, "small_area", _check_area("small_area", self.small_area))

    @classmethod
    def build(cls, layout: "ViewLayout | Mapping") -> "ViewLayout":
        """Return a ``ViewLayout``; build it if a config gives a dict."""
        if isinstance(layout, cls):
            return layout
        return _from_mapping(cls, layout, "layout")

    @property
    def num_scales(self) -> int:
        """S + 1, including the image scale."""
        return 1 + len(self.levels)

    @property
    def num_image_views(self) -> int:
        """V_0, the number of image views and small views."""
        return NUM_PYRAMIDS + self.num_small

    @property
    def patches_per_scale(self) -> tuple[int, ...]:
        """Patches per view for s = 0..S: 1, then M_s or ``num_sampled`` per level."""
        return (1, *(level.num_patches for level in self.levels))

    @property
    def views_per_scale(self) -> tuple[int, ...]:
        """Views for s = 0..S: V_0, then 2 per level."""
        return (self.num_image_views, *[NUM_PYRAMIDS] * (self.num_scales - 1))

    @property
    def num_crops(self) -> int:
        """Crops per image over all groups."""
        return sum(group.num_crops for group in self.groups)

    @cached_property
    def groups(self) -> tuple[ViewGroup, ...]:
        """Runs of consecutive views of equal size, ordered image, small, then patches by level.

        As in the released code, only consecutive views share BatchNorm statistics. So small views
        of 96 px and patches of 96 px are two groups.
        """
        wanted: list[tuple[int, Role, int, int, int]] = [
            (self.image_px, "image", 0, NUM_PYRAMIDS, 1)
        ]
        if self.num_small:
            wanted.append((self.small_px, "small", 0, self.num_small, 1))
        for scale, level in enumerate(self.levels, start=1):
            wanted.append((level.patch_px, "patch", scale, NUM_PYRAMIDS, level.num_patches))

        groups = []
        for px, views in itertools.groupby(wanted, key=operator.itemgetter(0)):
            slots: list[ViewSlot] = []
            for _, role, scale, num_views, num_patches in views:
                start = slots[-1].stop if slots else 0
                slots.append(ViewSlot(role, scale, num_views, num_patches, start))
            groups.append(ViewGroup(px, tuple(slots)))
        return tuple(groups)

    def split(self, packed: Sequence[Tensor]) -> list[Tensor]:
        """Split the groups into scales.

        Args:
            packed: One tensor (crops of the group, B, ...) per group.

        Returns:
            (V_0, 1, B, ...) for image and small views, then (2, P, B, ...) per level.
        """
        scales: list[list[Tensor]] = [[] for _ in range(1 + len(self.levels))]
        for group, crops in zip(self.groups, packed, strict=True):
            for slot in group.slots:
                # (V P, B, ...) -> (V, P, B, ...), because crops are view-major.
                views = crops[slot.start : slot.stop]
                scales[slot.scale].append(views.unflatten(0, (slot.num_views, slot.num_patches)))
        return [views[0] if len(views) == 1 else torch.cat(views) for views in scales]


def _from_mapping(cls: type, values: Any, name: str):  # type: ignore[no-untyped-def]
    known = [f.name for f in fields(cls)]
    if not isinstance(values, Mapping):
        raise UserTypeError(f"{name} must be a dict of {cls.__name__}'s fields, got {values!r}.")
    if unknown := sorted(set(values) - set(known)):
        raise UserValueError(f"{name}: unknown field(s) {unknown}; known are {known}.")
    try:
        return cls(**values)
    except TypeError as e:
        raise UserValueError(f"{name}: {str(e).removesuffix('.')}; its fields are {known}.") from e
