"""Extract the features of a backbone."""

from .backbone import FeatureBackbone, image_transform, load_backbone

__all__ = ["FeatureBackbone", "image_transform", "load_backbone"]
