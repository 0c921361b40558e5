"""Find the same picture in several labelled images by its bytes, and warn of it."""

import os
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import cache

from ...console.progress import watch
from ..image_identity import digest_of, stamp_of
from ..image_reading import ImageReadError, read_file
from .groups import version_of
from .labelled_images import LabelledData, LabelledImage, Splits, all_images, map_images

_KINDS = {
    "are copies of images of train": lambda image: image.digest,
    "have the name of an image of train before .rf., as versions of one image do": (
        lambda image: version_of(image.path, image.label)
    ),
}


def with_digests(splits: Splits) -> Splits:
    """Add digests to the images that have as many bytes as another image."""
    images = watch(all_images(splits), "looking for copies")
    stamps = {image.path: stamp_of(image.path) for image in images}
    num_of_size = Counter(size for size, *_ in stamps.values())

    digests: dict[str, str] = {}
    for path, stamp in watch(stamps.items(), "comparing images of equal size"):
        if num_of_size[stamp[0]] > 1:
            with suppress(ImageReadError):
                digests[path] = _digest(path, stamp)

    return map_images(splits, lambda image: replace(image, digest=digests.get(image.path, "")))


@cache
def _digest(path: str, stamp: tuple[int, int, int]) -> str:
    """Digest a file. The digest is kept: a comparison reads the same labels several times."""
    return digest_of(read_file(path)).hex()


def copy_warnings(data: LabelledData) -> list[str]:
    """Return warnings about pictures that are in train and in val, or have different labels."""
    found = []
    for what, key_of in _KINDS.items():
        in_train = {key_of(image): image for image in reversed(data.train)}
        both = [each for each in data.val if key_of(each) and key_of(each) in in_train]
        if both:
            found.append(
                f"{len(both)} of {len(data.val)} images of val {what}, for example "
                f"{_named(data, both[0], in_train[key_of(both[0])])}: keep each picture in one "
                "split, or scores are too high."
            )

    pictures: dict[str, list[LabelledImage]] = defaultdict(list)
    for image in data.images:
        pictures[image.digest or image.path].append(image)
    unequal = []
    for first, *others in pictures.values():
        other = next((image for image in others if image.labels != first.labels), None)
        if other is not None:
            unequal.append((first, other))
    if unequal:
        found.append(
            f"{len(unequal)} of {len(pictures)} pictures occur several times with different "
            f"labels, for example {_named(data, *unequal[0])}: correct the labels, or remove the "
            "copies."
        )
    return found


def _named(data: LabelledData, *images: LabelledImage) -> str:
    """Return the names of images with their classes."""
    names = []
    for image in images:
        classes = ", ".join(data.classes[label] for label in sorted(image.labels)) or "nothing"
        names.append(f"{os.path.relpath(image.path, data.root)} ({classes})")
    return " and ".join(names)
