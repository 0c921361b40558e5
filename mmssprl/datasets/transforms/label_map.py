"""Load the class of each pixel for mmseg's data sets."""

from typing import Any

from mmcv.transforms import BaseTransform

from ...registry import TRANSFORMS
from ..labels.label_maps import read_label_map
from ..labels.labelled_images import LabelledImage, Object


@TRANSFORMS.register_module()
class LoadLabelMap(BaseTransform):
    """Read ``gt_seg_map``, uint8 (H, W), from ``seg_map_path``, or draw it from ``objects``.

    ``seg_map_colours`` and ``seg_map_orientation`` have the meaning of ``mask_colours`` and
    ``mask_orientation`` in ``LabelledImage``.

    ``objects`` are dicts of the fields of ``Object`` in pixels of an image of ``width`` and
    ``height``. Results without either key are returned unchanged.
    """

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Add ``gt_seg_map``."""
        if "objects" in results:
            objects = tuple(Object(**thing) for thing in results["objects"])
            size = (results["width"], results["height"])
            image = LabelledImage(results["img_path"], objects, size=size)
        elif "seg_map_path" in results:
            image = LabelledImage(
                results["img_path"],
                mask=results["seg_map_path"],
                mask_colours=tuple(map(tuple, results.get("seg_map_colours", ()))),
                mask_orientation=results.get("seg_map_orientation", 1),
            )
        else:
            return results
        results["gt_seg_map"] = read_label_map(image)
        results.setdefault("seg_fields", []).append("gt_seg_map")
        return results
