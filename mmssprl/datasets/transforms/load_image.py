"""Load images for the data sets of mmpretrain, mmdet and mmseg.

Legend: H, W height and width in pixels, after the EXIF orientation is applied.
"""

from typing import Any

import cv2
from mmcv.transforms import BaseTransform
from torch import Tensor

from ...errors import UserValueError
from ...registry import TRANSFORMS
from ..image_reading import ImageReadError, read_image


@TRANSFORMS.register_module()
class LoadImage(BaseTransform):
    """Read an image as ``read_image`` does, in the form of mmcv's ``LoadImageFromFile``.

    Unlike mmcv's, it applies the EXIF orientation of WebP and AVIF and refuses truncated files.

    **Required Keys:**

    - img_path (str)

    **Added Keys:** The fields that ``image_fields`` returns.

    Raises:
        ValueError: The image cannot be read.
    """

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Add the image and its size."""
        try:
            image = read_image(results["img_path"])
        except ImageReadError as error:
            # torch builds the error of a worker again from its message alone.
            raise UserValueError(str(error)) from error
        return results | image_fields(image)


def image_fields(image: Tensor) -> dict[str, Any]:
    """Return an image (3, H, W) of ``read_image`` as fields of a sample.

    They are ``img``, uint8 (H, W, 3) in BGR, and ``img_shape`` and ``ori_shape``, both (H, W).
    """
    pixels = cv2.cvtColor(image.permute(1, 2, 0).numpy(), cv2.COLOR_RGB2BGR)
    size = pixels.shape[:2]
    return {"img": pixels, "img_shape": size, "ori_shape": size}
