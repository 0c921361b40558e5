"""Paste crops of an image onto empty canvases, which other images will fill."""

from typing import Any

import numpy as np
import torch

from ...registry import TRANSFORMS
from .pyramid_crop import Box, Cropper, PyramidCrop, draw_box

_ASPECT = (1 / 2, 2.0)  # width / height of a crop


@TRANSFORMS.register_module()
class PasteCrop(PyramidCrop):
    """Cut two crops and paste each onto its own canvas, for ``InsLoc``.

    The area of a crop, as a fraction of the image, is drawn from ``layout.image_area``. Two sizes
    are drawn between half of the canvas and 127 / 128 of it (the released recipe). The crop keeps
    its aspect and is scaled until its long side reaches the larger size or its short side the
    smaller one. Its position is uniform.

    Keys required, optional and deleted, and ``layout``, are as for ``PyramidCrop``, without levels.

    **Added Keys:**

    - inputs (list of one uint8 tensor (3, 3, px, px), px = ``layout.image_px``): The canvases of
      query and key, black except for the crop, and the whole image resized, as the background of
      other images. Channel-last in memory.
    - data_samples (dict): ``boxes`` is a float32 tensor (2, 4) of the crops on their canvases.
    """

    def transform(self, results: dict) -> dict[str, Any]:
        """Cut two crops and the background from ``results['img']``."""
        cropper = self.cropper_of(results)
        px = self.layout.image_px
        canvases = np.zeros((3, px, px, 3), np.uint8)
        boxes = [self._paste(cropper, canvas) for canvas in canvases[:2]]

        height, width, _ = cropper.image.shape
        canvases[2] = cropper.crop((0, 0, height, width), (px, px))
        return {
            "inputs": [torch.from_numpy(canvases).permute(0, 3, 1, 2)],
            "data_samples": {"boxes": torch.tensor(boxes, dtype=torch.float32)},
        }

    def _paste(self, cropper: Cropper, canvas: np.ndarray) -> tuple[int, int, int, int]:
        """Paste a random crop onto a canvas (px, px, 3); return its left, top, right, bottom."""
        rng = cropper.rng
        image_height, image_width, _ = cropper.image.shape
        box = draw_box(image_height, image_width, self.layout.image_area, rng, _ASPECT)

        px = len(canvas)
        height, width = _draw_size(box, px, rng)
        y, x = (int(rng.integers(px - side + 1)) for side in (height, width))
        canvas[y : y + height, x : x + width] = cropper.crop(box, (height, width))
        return x, y, x + width, y + height


def _draw_size(box: Box, px: int, rng: np.random.Generator) -> tuple[int, int]:
    """Draw height and width of a pasted crop with the aspect of ``box``."""
    shorter, longer = sorted(box[2:])
    drawn = rng.integers(px // 2, px - max(1, px // 128), size=2, endpoint=True)
    scale = min(drawn.max() / longer, drawn.min() / shorter)
    height, width = (max(1, round(side * scale)) for side in box[2:])
    return height, width
