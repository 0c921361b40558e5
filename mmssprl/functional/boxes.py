"""Boxes in images and in crops of them.

Legend: a box is (x1, y1, x2, y2), its left, top, right and bottom edge, in pixels: pixel i covers
i to i + 1. The *place* of a crop is the box of the image that it shows; if the crop is mirrored,
x1 > x2: always its left edge shows the image at x1. N images, R boxes each, C channels, px side of
the crops. A *map* (M, D) has the cells of a grid (h, w) by rows in its first h w places; B images.
"""

import torch
from torch import Tensor
from torchvision.ops import roi_align

from ._device import sent

_LEAST_SIDE = 1e-2
"""Sides of boxes are at least so many cells, for the mean over a point is its value."""


def mirror_places(places: Tensor, flip: Tensor | None) -> Tensor:
    """Return the places (..., 4) of crops after some of them are mirrored.

    ``flip`` (N,) tells which, in order; it may be on the CPU. None: none of them.
    """
    if flip is None:
        return places
    is_mirrored = sent(flip, places.device).view(*places.shape[:-1], 1)
    left, top, right, bottom = places.unbind(-1)
    return torch.where(is_mirrored, torch.stack([right, top, left, bottom], -1), places)


def boxes_in_crop(boxes: Tensor, places: Tensor, px: int) -> Tensor:
    """Return boxes (..., 4) of an image in pixels of its crops at ``places`` (..., 4).

    Both may be mirrored; in the result x1 <= x2. Parts outside of the crop are kept.
    """
    corner, size = places[..., :2], places[..., 2:] - places[..., :2]
    ends = [(boxes[..., i : i + 2] - corner) * (px / size) for i in (0, 2)]
    return torch.cat([torch.minimum(*ends), torch.maximum(*ends)], dim=-1)


def pixels_in_boxes(boxes: Tensor, px: int) -> Tensor:
    """Mark the pixels whose centres lie in boxes (..., 4) of a crop: (..., px, px), bool."""
    centre = torch.arange(px, device=boxes.device) + 0.5
    x1, y1, x2, y2 = boxes[..., None].unbind(-2)  # (..., 1) each
    columns, rows = (x1 < centre) & (centre < x2), (y1 < centre) & (centre < y2)
    return rows[..., :, None] & columns[..., None, :]


def pool_boxes(
    maps: Tensor, boxes: Tensor, px: int, *, cells: int = 7, sampling_ratio: int = 2
) -> Tensor:
    """Cut boxes (N, R, 4) of crops out of their maps (N, C, h, w), see torchvision's ``roi_align``.

    Returns (N R, C, cells, cells), image-major; float32 under autocast.
    """
    return roi_align(
        maps,
        list(boxes.to(maps.dtype)),
        cells,
        spatial_scale=maps.shape[-1] / px,
        sampling_ratio=sampling_ratio,
        aligned=True,
    )


def cells_of_places(places: Tensor, cells: int) -> Tensor:
    """Divide places (..., 4) into ``cells`` x ``cells`` parts by rows: (cells ** 2, ..., 4).

    Parts are those of the crop's own map: a mirrored crop begins with its right edge in the image.
    """
    edges = torch.linspace(0, 1, cells + 1, device=places.device, dtype=places.dtype)
    x1, y1, x2, y2 = places.unbind(-1)
    xs, ys = ([low + edge * (high - low) for edge in edges] for low, high in ((x1, x2), (y1, y2)))
    parts = [
        torch.stack([xs[column], ys[row], xs[column + 1], ys[row + 1]], -1)
        for row in range(cells)
        for column in range(cells)
    ]
    return torch.stack(parts)


def mean_weights(boxes: Tensor, sizes: Tensor, num_cells: int) -> Tensor:
    """Return the weights (B, R, M) of a map's cells in its means over boxes.

    A map is bilinear between the centres of its cells, and constant outside the outer ones. The
    weights are its exact integral over a box, divided by the area; they sum to 1. The product of
    weights and maps (B, M, D) is RoIAlign to 1 x 1 with ever more samples.

    Args:
        boxes: (B, R, 4) in cells of the image's map, mirrored or not; cut off at its border.
        sizes: (B, 2), the grid h, w of each map.
        num_cells: M, at least h w of each map.
    """
    height, width = (size[:, None] for size in sizes.unbind(-1))  # (B, 1)
    cell = torch.arange(num_cells, device=boxes.device)
    left, top, right, bottom = boxes.unbind(-1)
    columns = _weights_along(left, right, cell % width, width)
    rows = _weights_along(top, bottom, cell // width, height)
    return rows * columns * (cell < height * width)[:, None]


def _weights_along(start: Tensor, stop: Tensor, index: Tensor, length: Tensor) -> Tensor:
    """Return weights (B, R, M) of places ``index`` (B, M) on an axis of ``length`` (B, 1) cells."""
    start, stop = (end.clamp(min=0).minimum(length) for end in (start, stop))  # (B, R)
    middle = (start + stop) / 2
    half = ((stop - start).abs() / 2).clamp(min=_LEAST_SIDE / 2)
    ends = (middle - half)[..., None], (middle + half)[..., None]

    def hat(place: Tensor) -> Tensor:
        """Integrate max(0, 1 - |t - c|) between the ends, for the centre c of a place."""
        low, high = ((end - place - 0.5).clamp(-1, 1) for end in ends)
        return high - low - 0.5 * (high * high.abs() - low * low.abs())

    index, last = index[:, None], length[:, None] - 1  # (B, 1, M), (B, 1, 1)
    # Outside the outer centres their value counts, as if a copy lay beyond.
    outer = (index == 0) * hat(torch.full_like(index, -1)) + (index == last) * hat(last + 1)
    return (hat(index) + outer) / (2 * half)[..., None]
