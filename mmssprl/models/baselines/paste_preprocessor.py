"""Fill the canvases of pasted crops with other images, and augment whole canvases.

Legend: B images per rank, px side of a canvas, A anchors.
"""

from typing import Any

import numpy as np
import torch
from mmengine.dist import get_rank
from torch import Tensor
from torchvision.ops import box_iou

from ...errors import UserValueError
from ...functional.boxes import boxes_in_crop, pixels_in_boxes
from ...registry import MODELS
from ..pyramid_preprocessor import PyramidPreprocessor

_STREAM = 1  # random stream of this class, with the seed and step of the parent
_LEAST_IOU = 0.5
_RATIOS = (0.5, 0.75, 1.0, 1.5, 2.0)  # height / width
_SIDES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Square roots of the anchors' areas, as shares of the canvas: 32 to 256 of 256 px."""
_NUM_STRIDES = 16


@MODELS.register_module()
class PastePreprocessor(PyramidPreprocessor):
    """Paste the crops of ``PasteCrop``, then augment the canvases like crops of the parent.

    The background of a crop is the image s places before it in the batch. Each step draws one shift
    s for the queries and a different one for the keys. So backgrounds are other images, as
    published, but one image is decoded instead of three. ASSUMPTION: the published code draws each
    background independently.

    For each box, one anchor is drawn uniformly among those with an IoU above 0.5. If there are
    none, it is the anchor with the largest IoU. Anchors are centred every 1/16 of the canvas from
    0 and may extend beyond it. ASSUMPTION: no NMS of anchors, which changes their mean IoU by 0.01.

    Args:
        args, kwargs: As in ``PyramidPreprocessor``; the same ``layout`` as in ``PasteCrop``.
    """

    anchors: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("anchors", make_anchors(self.layout.image_px), persistent=False)

    def forward(self, data: dict, training: bool = False) -> dict:
        """Paste and normalise; if ``training``, augment, and draw backgrounds and anchors.

        ``data`` is as of ``PasteCrop``, with B in front. Returns ``inputs``, one float32 tensor
        (2, B, 3, px, px), and ``data_samples`` with ``boxes`` (2, B, 2, 4): crop and anchor in
        pixels of the canvas, after a flip. Outside of training the crop replaces the anchor.
        """
        canvases, boxes = self._check_canvases(data)
        num = len(canvases)
        px = self.layout.image_px
        rng = np.random.default_rng((self.seed, get_rank(), self.num_batches, _STREAM))
        shifts = np.array([1, 2])
        if training:
            # The background of a single image, as in pictures, is the image itself.
            shifts = 1 + rng.permutation(max(2, num - 1))[:2]

        # (B, 3, 3, px, px) -> (B, 3, px, px, 3), the order in memory.
        canvases = canvases.movedim(2, -1)
        pasted = canvases[:, :2]
        own = canvases[:, 2]
        behind = torch.stack([own.roll(int(shift), 0) for shift in shifts], dim=1)
        composed = torch.where(pixels_in_boxes(boxes, px)[..., None], pasted, behind)

        whole = boxes.new_zeros(num, 2, 4)
        whole[..., 2:] = px
        cut = {"inputs": [composed.movedim(-1, 2)], "data_samples": {"places": [whole]}}
        out = super().forward(cut, training)
        # A flip mirrors the place of a canvas, and with it the box.
        boxes = boxes_in_crop(boxes.transpose(0, 1), out["data_samples"]["places"][0], px)
        moved = boxes
        if training:
            drawn = torch.from_numpy(rng.random(boxes.shape[:2], np.float32))
            moved = choose_anchors(boxes, self.anchors, drawn.to(boxes.device, non_blocking=True))
        return {**out, "data_samples": {"boxes": torch.stack([boxes, moved], dim=2)}}

    def _check_canvases(self, data: dict) -> tuple[Tensor, Tensor]:
        """Return canvases (B, 3, 3, px, px) and boxes (B, 2, 4) on the model's device."""
        inputs = data["inputs"]
        samples = data.get("data_samples") or {}
        px = self.layout.image_px
        found = [tuple(each.shape[1:]) for each in inputs]
        if found != [(3, 3, px, px)] or "boxes" not in samples:
            raise UserValueError(
                f"inputs must be one tensor (B, 3, 3, {px}, {px}) of canvases, with boxes in "
                f"data_samples, but got {found} and {[*samples]}; set type='PasteCrop' in "
                "train_dataloader.dataset.pipeline, with the model's layout."
            )
        return self.cast_data(inputs[0]), self.cast_data(samples["boxes"])


def make_anchors(px: int) -> Tensor:
    """Return the anchors (A, 4) of a canvas, not clipped to it."""
    centres = torch.arange(_NUM_STRIDES) * (px / _NUM_STRIDES)
    sides = px * torch.tensor(_SIDES)[:, None]
    root = torch.tensor(_RATIOS).sqrt()
    sizes = torch.stack([sides / root, sides * root], dim=-1).flatten(0, 1)  # width, height
    centre = torch.cartesian_prod(centres, centres)[:, None]  # (256, 1, 2)
    return torch.cat([centre - sizes / 2, centre + sizes / 2], dim=-1).flatten(0, 1)


def choose_anchors(boxes: Tensor, anchors: Tensor, drawn: Tensor) -> Tensor:
    """Choose for each box (..., 4) one of the anchors (A, 4) that overlap it well.

    ``drawn`` (...), uniform in [0, 1), selects the anchor. Nothing waits for the device.
    """
    iou = box_iou(boxes.flatten(0, -2), anchors).view(*boxes.shape[:-1], -1)
    order = (iou > _LEAST_IOU).cumsum(dim=-1)  # reaches k at the k-th such anchor
    count = order[..., -1]
    kth = (order <= (drawn * count)[..., None].floor()).sum(dim=-1)
    return anchors[torch.where(count > 0, kth, iou.argmax(dim=-1))]
