"""Transforms that run in loader workers."""

from .cut_ends import CutEnds
from .label_map import LoadLabelMap
from .load_image import LoadImage
from .paste_crop import PasteCrop
from .pyramid_crop import PyramidCrop
from .region_pair_crop import RegionPairCrop
from .teacher_crop import TeacherCrop

__all__ = [
    "CutEnds",
    "LoadImage",
    "LoadLabelMap",
    "PasteCrop",
    "PyramidCrop",
    "RegionPairCrop",
    "TeacherCrop",
]
