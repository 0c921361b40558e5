"""Data sets of unlabeled images for pre-training, and of labelled images."""

import mmssprl.registry  # noqa: F401  imports mmpretrain's data sets without their output
from mmssprl.datasets.image_reading import ImageReadError, read_image
from mmssprl.datasets.multi_label import CocoMultiLabel, VocMultiLabel
from mmssprl.datasets.stack_views import stack_views
from mmssprl.datasets.unlabeled_images import UnlabeledImages

__all__ = [
    "CocoMultiLabel",
    "ImageReadError",
    "UnlabeledImages",
    "VocMultiLabel",
    "read_image",
    "stack_views",
]
