"""Warn of other labels next to folders that are read as classes."""

from collections.abc import Sequence

from ..image_reading import read_image
from .drawn import MOST_DRAWN, are_drawn
from .files import Files
from .masks import label_images_in
from .unread import of_tool


def warn_of_other_labels(files: Files, names: Sequence[str], warnings: list[str]) -> None:
    """Warn of a labelling tool's files, and of label images among the images of all classes."""
    if message := of_tool(files):
        warnings.append(f"{message} The folders are read as classes instead.")

    found = label_images_in(names)
    is_many = len(found) > MOST_DRAWN * len(names)
    if is_many and are_drawn(found, lambda name: read_image(files.path(name))):
        warnings.append(
            f"{len(found)} of {len(names)} images look like label images of others, for example "
            f"{found[0]}: they are read as photographs of their class; move them."
        )
