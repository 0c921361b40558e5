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
