"""Features of a backbone, extracted in one place."""

from .backbone import FeatureBackbone, image_transform, load_backbone

__all__ = ["FeatureBackbone", "image_transform", "load_backbone"]
