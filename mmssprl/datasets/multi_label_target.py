"""Multi-label targets that know three states: present, absent, not counted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mmpretrain.datasets import MultiLabelDataset
from numpy.typing import NDArray

from ..registry import DATASETS

PRESENT, ABSENT, UNKNOWN = 1, 0, -1


def target(num_classes: int, present: Sequence[int], unknown: Sequence[int] = ()) -> NDArray:
    """Return the target (K,) float32 of one image: 1 present, 0 absent, -1 not counted."""
    scores = np.full(num_classes, ABSENT, np.float32)
    scores[list(unknown)] = UNKNOWN
    scores[list(present)] = PRESENT
    return scores


@DATASETS.register_module()
class MultiLabelTargetDataset(MultiLabelDataset):
    """A data set whose items also have ``gt_score``, the ``target`` of the image.

    Items, of ``ann_file`` in mmengine's format or of a subclass, have ``gt_label``, the classes
    present, and may have ``gt_unknown``, those that neither loss nor metric counts.
    """

    def get_data_info(self, idx: int) -> dict[str, Any]:
        """Return the annotations of one image."""
        info = super().get_data_info(idx)
        classes = self.metainfo["classes"]
        info["gt_score"] = target(len(classes), info["gt_label"], info.get("gt_unknown", ()))
        return info
