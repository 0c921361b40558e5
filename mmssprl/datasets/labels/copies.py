"""The same picture in several labelled images: found by its bytes, and told."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from ...console.progress import watch
from ..image_identity import stamp_of
from ..image_reading import ImageReadError, read_file
from .groups import version_of
from .labelled_images import LabelledData, LabelledImage, Splits


def with_digests(splits: Splits) -> Splits:
    """Return the images with the digests of those whose file size is that of another image."""
    images = [image for own in splits.values() for image in own]
    stamps = {each.path: stamp_of(each.path) for each in watch(images, "looking for equal images")}
    num_of_size = Counter(size for size, *_ in stamps.values())
    doubtful = [path for path, (size, *_) in stamps.items() if size > 0 and num_of_size[size] > 1]

    digests: dict[str, str] = {}
    for path in watch(doubtful, "comparing images of equal size"):
        with suppress(ImageReadError):
            digests[path] = _digest(path, stamps[path])

    found = {}
    for split, own in splits.items():
        found[split] = [replace(image, digest=digests.get(image.path, "")) for image in own]
    return found


@cache
def _digest(path: str, stamp: tuple[int, int, int]) -> str:
    """Digest a file. It is kept: a comparison reads the same labels several times."""
    return hashlib.blake2b(read_file(path).data, digest_size=16).hexdigest()


def copy_warnings(data: LabelledData, task: str) -> list[str]:
    """Return warnings about pictures that are in train and in val, or have different labels."""
    found = []
    copies = _in_both(data, lambda image: image.digest)
    if copies:
        found.append(
            f"{len(copies)} of {len(data.val)} images of val are copies of images of train, for "
            f"example {_named(data, copies[0])}: remove them from one, or scores are too high."
        )

    copied = {image.path for image, _ in copies}
    versions = _in_both(data, lambda image: version_of(image.path))
    versions = [pair for pair in versions if pair[0].path not in copied]
    if versions:
        found.append(
            f"{len(versions)} of {len(data.val)} images of val have the name of an image of train "
            f"before .rf., as versions of one image do, for example {_named(data, versions[0])}: "
            "move them to one split, or scores are too high."
        )

    unequal = _unequal(data, task)
    if unequal:
        found.append(
            f"{len(unequal)} of {len(data.train) + len(data.val)} images have copies with other "
            f"labels, for example {_named(data, unequal[0])}: correct the labels, or remove the "
            "copies."
        )
    return found


Pair = tuple[LabelledImage, LabelledImage]


def _in_both(data: LabelledData, key_of: Callable[[LabelledImage], str]) -> list[Pair]:
    """Return the images of val whose key an image of train has, with the first of these."""
    in_train = {key_of(image): image for image in reversed(data.train)}
    in_train.pop("", None)
    return [(each, in_train[key_of(each)]) for each in data.val if key_of(each) in in_train]


def _unequal(data: LabelledData, task: str) -> list[Pair]:
    """Return two images with equal bytes and different labels of each picture that has them."""
    first: dict[str, LabelledImage] = {}
    found: dict[str, Pair] = {}
    for image in (*data.train, *data.val):
        if image.digest:
            other = first.setdefault(image.digest, image)
            if _labels_of(image, task) != _labels_of(other, task):
                found.setdefault(image.digest, (other, image))
    return [*found.values()]


def _labels_of(image: LabelledImage, task: str) -> Any:
    if task == "classify":
        return image.labels
    return image.labels, Counter((thing.label, thing.box) for thing in image.objects)


def _named(data: LabelledData, pair: Pair) -> str:
    """Return the names of two images with their classes."""
    names = []
    for image in pair:
        classes = ", ".join(data.classes[label] for label in sorted(image.labels)) or "nothing"
        names.append(f"{os.path.relpath(image.path, data.root)} ({classes})")
    return " and ".join(names)
