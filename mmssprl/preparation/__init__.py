"""Checks of the data sets' folders: lists, numbers, and the commands that complete them.

Each data set is a module with ``TREE``, the files that it wants below ``root``, and
``check(root, any_size=...)``, which looks and changes nothing.
"""

from pathlib import Path

from ..errors import UserFileNotFoundError
from . import coco, imagenet, voc07, voc12aug
from .finding import OK, Finding, format_remedies, format_table

__all__ = ["DATA_SETS", "OK", "Finding", "check_data", "format_remedies", "format_table"]

DATA_SETS = {"coco": coco, "voc07": voc07, "voc12aug": voc12aug, "imagenet": imagenet}


def check_data(name: str, root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look for the pieces of a data set.

    Args:
        name: Key of ``DATA_SETS``.
        root: Its folder, which need not be there.
        any_size: Other numbers of images and categories than the official ones are right too.

    Raises:
        FileNotFoundError: ``root`` is a file.
    """
    if root.exists() and not root.is_dir():
        raise UserFileNotFoundError(f"{root} must be a folder, but is a file; pass its folder.")
    return DATA_SETS[name].check(root, any_size=any_size)
