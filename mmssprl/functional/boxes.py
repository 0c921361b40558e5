"""Boxes in images and in crops.

Legend: A box is (x1, y1, x2, y2), its left, top, right and bottom edge, in pixels. Pixel i covers
i to i + 1. The *place* of a crop is the box of the image that it shows. A mirrored crop has
x1 > x2, because the left edge of a crop always shows the image at x1. N images, R boxes each, C
channels, px side of the crops. B images with a *map* (M, D) each. The first h w rows of a map are
the cells of a grid (h, w), row by row.
"""

from itertools import pairwise

import torch
from torch import Tensor
from torchvision.ops import roi_align

from ._device import sent

_LEAST_SIDE = 1e-2
"""Smallest side of a box, in cells. The mean over a smaller box is nearly the value at a point."""


def mirror_places(places: Tensor, flip: Tensor | None) -> Tensor:
    """Return the places (..., 4) of crops after mirroring some of them.

    ``flip`` (N,) selects the crops to mirror, None selects none. It may be on the CPU.
    """
    if flip is None:
        return places
    is_mirrored = sent(flip, places.device).view(*places.shape[:-1], 1)
    left, top, right, bottom = places.unbind(-1)
    return torch.where(is_mirrored, torch.stack([right, top, left, bottom], -1), places)


def boxes_in_crop(boxes: Tensor, places: Tensor, px: int) -> Tensor:
    """Convert boxes (..., 4) of an image to pixels of its crops at ``places`` (..., 4).

    Boxes and places may be mirrored. The result has x1 <= x2 and is not clipped to the crop.
    """
    corner = places[..., :2]
    size = places[..., 2:] - places[..., :2]
    ends = [(boxes[..., i : i + 2] - corner) * (px / size) for i in (0, 2)]
    return torch.cat([torch.minimum(*ends), torch.maximum(*ends)], dim=-1)


def pixels_in_boxes(boxes: Tensor, px: int) -> Tensor:
    """Return masks (..., px, px), bool, of the pixels with their centre in boxes (..., 4)."""
    centre = torch.arange(px, device=boxes.device) + 0.5
    x1, y1, x2, y2 = boxes[..., None].unbind(-2)  # (..., 1) each
    columns = (x1 < centre) & (centre < x2)
    rows = (y1 < centre) & (centre < y2)
    return rows[..., :, None] & columns[..., None, :]


def pool_boxes(
    maps: Tensor, boxes: Tensor, px: int, *, cells: int = 7, sampling_ratio: int = 2
) -> Tensor:
    """Apply torchvision's ``roi_align`` to maps (N, C, h, w) and boxes (N, R, 4) of crops.

    Returns (N R, C, cells, cells), image-major; float32, also of half-precision maps, and float64
    of float64 maps.
    """
    # bfloat16 would round a corner at 200 px by half a pixel. Autocast would round the result.
    dtype = torch.promote_types(maps.dtype, torch.float32)
    with torch.autocast(maps.device.type, enabled=False):
        return roi_align(
            maps.to(dtype),
            list(boxes.to(dtype)),
            cells,
            spatial_scale=maps.shape[-1] / px,
            sampling_ratio=sampling_ratio,
            aligned=True,
        )


def cells_of_places(places: Tensor, cells: int) -> Tensor:
    """Divide places (..., 4) into ``cells`` x ``cells`` parts, row by row: (cells ** 2, ..., 4).

    The parts have the order of the crop's own map, so a mirrored crop starts at its right edge in
    the image.
    """
    edges = torch.linspace(0, 1, cells + 1, device=places.device, dtype=places.dtype)
    x1, y1, x2, y2 = places.unbind(-1)
    xs = [x1 + edge * (x2 - x1) for edge in edges]
    ys = [y1 + edge * (y2 - y1) for edge in edges]

    parts = []
    for top, bottom in pairwise(ys):
        for left, right in pairwise(xs):
            parts.append(torch.stack([left, top, right, bottom], -1))
    return torch.stack(parts)


def mean_weights(boxes: Tensor, sizes: Tensor, num_cells: int) -> Tensor:
    """Return weights (B, R, M) such that ``weights @ maps`` are the means of maps over boxes.

    A map is bilinear between the centres of its cells and constant outside the outer ones. The
    weights integrate it exactly over a box and divide by the area; they sum to 1. The means are the
    limit of RoIAlign to 1 x 1 for many samples.

    Args:
        boxes: (B, R, 4) in cells of the map, mirrored or not. They are clipped to the map.
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
    """Return weights (B, R, M) of the cells ``index`` (B, M) on an axis of ``length`` (B, 1)."""
    start, stop = (end.clamp(min=0).minimum(length) for end in (start, stop))  # (B, R)
    middle = (start + stop) / 2
    half = ((stop - start).abs() / 2).clamp(min=_LEAST_SIDE / 2)
    ends = ((middle - half)[..., None], (middle + half)[..., None])

    def hat(place: Tensor) -> Tensor:
        """Integrate max(0, 1 - |t - c|) between the ends, for the centre c of a cell."""
        low, high = ((end - place - 0.5).clamp(-1, 1) for end in ends)
        return high - low - 0.5 * (high * high.abs() - low * low.abs())

    index = index[:, None]  # (B, 1, M)
    last = length[:, None] - 1  # (B, 1, 1)
    # Outside the outer centres the map is constant, like a copy of the outer cell.
    before = torch.where(index == 0, hat(torch.full_like(index, -1)), 0)
    behind = torch.where(index == last, hat(last + 1), 0)
    return (hat(index) + (before + behind)) / (2 * half)[..., None]
