"""The methods that SS-PRL is compared with, one file each."""

from .byol import BYOL
from .densecl import DenseCL
from .detco import DetCo, DetCoNeck
from .moco import MoCo

__all__ = ["BYOL", "DenseCL", "DetCo", "DetCoNeck", "MoCo"]
