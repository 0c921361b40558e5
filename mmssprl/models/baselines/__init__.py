"""The methods that SS-PRL is compared with, one file each."""

from .byol import BYOL

__all__ = ["BYOL"]
