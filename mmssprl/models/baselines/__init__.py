"""The methods that SS-PRL is compared with, one file each."""

from .densecl import DenseCL
from .moco import MoCo

__all__ = ["DenseCL", "MoCo"]
