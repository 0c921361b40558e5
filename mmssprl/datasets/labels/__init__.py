"""Labelled images in any common layout, found in a folder and checked."""

from .find import DEFAULT_VAL_SHARE, find_labels
from .labelled_images import LabelledData, LabelledImage, Object

__all__ = ["DEFAULT_VAL_SHARE", "LabelledData", "LabelledImage", "Object", "find_labels"]
