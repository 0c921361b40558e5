"""Transforms that run in loader workers."""

from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop

__all__ = ["PyramidCrop"]
