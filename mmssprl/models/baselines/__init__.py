"""The methods that SS-PRL is compared with, one file each."""

from .moco import MoCo

__all__ = ["MoCo"]
