"""Data sets of unlabeled images for pre-training, and of labelled images."""

from .. import registry  # noqa: F401  imports mmpretrain's data sets without their output
from .image_reading import ImageReadError, read_image
from .multi_label import CocoMultiLabel, VocMultiLabel
from .stack_views import stack_views
from .unlabeled_images import UnlabeledImages

__all__ = [
    "CocoMultiLabel",
    "ImageReadError",
    "UnlabeledImages",
    "VocMultiLabel",
    "read_image",
    "stack_views",
]
