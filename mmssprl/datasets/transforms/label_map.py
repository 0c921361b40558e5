"""The class of each pixel, for mmseg's data sets."""

from typing import Any

from mmcv.transforms import BaseTransform

from ...registry import TRANSFORMS
from ..labels.label_maps import read_label_map
from ..labels.labelled_images import LabelledImage, Object


@TRANSFORMS.register_module()
class LoadLabelMap(BaseTransform):
    """Read the label image of ``seg_map_path``, or draw one of ``objects``, as ``gt_seg_map``.

    It is uint8 (H, W), of the image's size. ``objects`` are ``Object``'s fields in pixels of the
    image, of ``width`` and ``height``. An image with neither is passed on as it is.
    """

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Add ``gt_seg_map``."""
        if "objects" in results:
            objects = tuple(Object(**thing) for thing in results["objects"])
            size = (results["width"], results["height"])
            image = LabelledImage(results["img_path"], objects, size=size)
        elif "seg_map_path" in results:
            image = LabelledImage(results["img_path"], mask=results["seg_map_path"])
        else:
            return results
        results["gt_seg_map"] = read_label_map(image)
        results.setdefault("seg_fields", []).append("gt_seg_map")
        return results
