"""Cut the ends of very long images.

Legend: H, W height and width in pixels.
"""

from typing import Any

from mmcv.transforms import BaseTransform

from ...registry import TRANSFORMS
from ..long_images import middle_of


@TRANSFORMS.register_module()
class CutEnds(BaseTransform):
    """Keep the middle of a very long image, see ``middle_of``, in front of a ``CenterCrop``.

    **Modified Keys:**

    - img (uint8 (H, W, 3))
    - img_shape (H, W)
    """

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Cut the image."""
        image = results["img"]
        image = image[middle_of(*image.shape[:2])]
        return results | {"img": image, "img_shape": image.shape[:2]}
