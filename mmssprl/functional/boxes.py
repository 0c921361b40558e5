"""Where things lie in images and in crops of them.

Legend: a box is (x1, y1, x2, y2), its left, top, right and bottom edge, in pixels: pixel i covers
i to i + 1. The *place* of a crop is the box of the image that it shows; if the crop is mirrored,
x1 > x2: always its left edge shows the image at x1. N images, R boxes each, C channels, px side of
the crops.
"""

import torch
from torch import Tensor
from torchvision.ops import roi_align

from ._device import sent


def mirror_places(places: Tensor, flip: Tensor | None) -> Tensor:
    """Return the places (..., 4) of crops after some of them are mirrored.

    ``flip`` (N,) tells which, in order; it may lie on the CPU. None is none of them.
    """
    if flip is None:
        return places
    is_mirrored = sent(flip, places.device).view(*places.shape[:-1], 1)
    left, top, right, bottom = places.unbind(-1)
    return torch.where(is_mirrored, torch.stack([right, top, left, bottom], -1), places)


def boxes_in_crop(boxes: Tensor, places: Tensor, px: int) -> Tensor:
    """Return boxes (..., 4) of an image in pixels of its crops at ``places`` (..., 4).

    Both may be mirrored; in the result x1 <= x2. What lies outside of the crop is not cut off.
    """
    corner, size = places[..., :2], places[..., 2:] - places[..., :2]
    ends = [(boxes[..., i : i + 2] - corner) * (px / size) for i in (0, 2)]
    return torch.cat([torch.minimum(*ends), torch.maximum(*ends)], dim=-1)


def cut_to_crop(boxes: Tensor, px: int, *, least: float) -> tuple[Tensor, Tensor]:
    """Cut boxes (..., 4) off at the edges of a crop, and tell which are inside enough (...,).

    One of which less than the share ``least`` lies inside is moved to the nearest place inside.
    """
    corner, size = boxes[..., :2], boxes[..., 2:] - boxes[..., :2]
    cut = boxes.clamp(0, px)
    is_inside = (cut[..., 2:] - cut[..., :2]).prod(dim=-1) >= least * size.prod(dim=-1)
    corner = torch.minimum(corner, px - size).clamp(min=0)
    moved = torch.cat([corner, (corner + size).clamp(max=px)], dim=-1)
    return torch.where(is_inside[..., None], cut, moved), is_inside


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


def mean_in_boxes(maps: Tensor, boxes: Tensor, px: int, *, samples: int) -> Tensor:
    """Average square maps (N, C, h, h) over boxes (N, R, 4) inside their crops: (N, R, C).

    What ``roi_align`` gives with one cell of ``samples`` times ``samples`` points. Bilinear weights
    are a product of those of rows and of columns, so that one product of matrices is enough.
    """
    size, device, dtype = maps.shape[-1], boxes.device, boxes.dtype
    # (N, R, 2 ends, 2 axes), in pixels of the maps, whose pixel i is at i
    ends = boxes.unflatten(-1, (2, 2)) * (size / px) - 0.5
    shares = (torch.arange(samples, device=device, dtype=dtype) + 0.5) / samples
    first, last = ends[..., None].unbind(-3)  # (N, R, 2 axes, 1) each
    points = first.lerp(last, shares).clamp(0, size - 1)
    pixels = torch.arange(size, device=device, dtype=dtype)
    distances = (points[..., None] - pixels).abs()
    columns, rows = (1 - distances).relu().mean(dim=-2).unbind(-2)  # (N, R, h) each
    weights = (rows[..., :, None] * columns[..., None, :]).flatten(2)  # (N, R, h h)
    with torch.autocast(maps.device.type, enabled=False):
        return weights.to(maps.dtype) @ maps.permute(0, 2, 3, 1).flatten(1, 2)
