"""The baselines that SS-PRL is compared with, one file each."""

from .byol import BYOL
from .densecl import DenseCL
from .detco import DetCo, DetCoNeck
from .insloc import InsLoc, InsLocNeck
from .maskco import MaskCo
from .moco import MoCo
from .paste_preprocessor import PastePreprocessor

__all__ = [
    "BYOL",
    "DenseCL",
    "DetCo",
    "DetCoNeck",
    "InsLoc",
    "InsLocNeck",
    "MaskCo",
    "MoCo",
    "PastePreprocessor",
]
