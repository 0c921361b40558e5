"""Digests that show whether labelled images have changed in place."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ..image_identity import digest_of, stamp_of
from ..image_reading import ImageReadError, read_file
from .labelled_images import LabelledData, LabelledImage

_OF_LABELS = ("objects", "label", "mask_colours", "mask_orientation", "labels", "unknown")


def digests_of(data: LabelledData) -> dict[str, str]:
    """Return a digest of all labels, and one of the names and sizes (bytes) of all images.

    They are the same for another order of the images, and wherever the folder is.
    """
    splits = {"train": data.train, "val": data.val}
    labels = []
    for split, images in splits.items():
        labels += [f"{split} {_labels_of(image, data)}" for image in images]
    return {
        "labels": _digest([*data.classes, *sorted(labels)]),
        "images": digest_of_sizes((image.path for image in data.images), data.root),
    }


def digest_of_sizes(paths: Iterable[str | Path], root: Path) -> str:
    """Return a digest of the names below ``root`` and the sizes (bytes) of files.

    An image that is replaced nearly always has another size, and no image is read for it.
    """
    return _digest(sorted(f"{os.path.relpath(path, root)} {stamp_of(path)[0]}" for path in paths))


def _labels_of(image: LabelledImage, data: LabelledData) -> str:
    """Return the labels of an image as text, with the digest of its label image."""
    values = [getattr(image, name) for name in _OF_LABELS]
    found = [os.path.relpath(image.path, data.root)]
    found += [repr(sorted(x) if isinstance(x, frozenset) else x) for x in values]
    if image.mask:
        found += [os.path.relpath(image.mask, data.root), _digest_of_file(image.mask)]
    return " ".join(found)


def _digest_of_file(path: str) -> str:
    try:
        return digest_of(read_file(path)).hex()
    except ImageReadError:
        return ""


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
