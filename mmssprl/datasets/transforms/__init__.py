"""Transforms that run in loader workers."""

from mmssprl.datasets.transforms.label_map import LoadLabelMap
from mmssprl.datasets.transforms.load_image import LoadImage
from mmssprl.datasets.transforms.paste_crop import PasteCrop
from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.datasets.transforms.region_pair_crop import RegionPairCrop
from mmssprl.datasets.transforms.teacher_crop import TeacherCrop

__all__ = [
    "LoadImage",
    "LoadLabelMap",
    "PasteCrop",
    "PyramidCrop",
    "RegionPairCrop",
    "TeacherCrop",
]
