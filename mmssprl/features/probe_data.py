"""Labelled images in any layout of ``datasets.labels``, as what a probe fits and tests on.

Legend: N images and K classes of a split, C features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..datasets.image_reading import read_image
from ..datasets.labels import LabelledData, LabelledImage, find_labels
from ..datasets.multi_label import target
from ..errors import UserTypeError, UserValueError
from .backbone import FeatureBackbone
from .crops import Crops
from .extract import FeatureOptions, extract, require_readable


@dataclass(frozen=True)
class LabelledSplit:
    """Image files and their labels (N, K): 1 present, 0 absent, -1 unknown."""

    name: str
    paths: list[str]
    labels: Tensor


@dataclass(frozen=True)
class ProbeData:
    """What a folder holds: the images to fit on and the images to test on.

    Args:
        labelled: The labels as they were read.
        train, test: The splits; a comparison may take others than the folder's own.
    """

    labelled: LabelledData
    train: LabelledSplit
    test: LabelledSplit

    @property
    def classes(self) -> list[str]:
        """Names in the order of the K labels."""
        return self.labelled.classes


def find_probe_data(root: str | Path, *, seed: int = 0, class_folders: bool = False) -> ProbeData:
    """Read the labels of a folder in any layout that `finetune --task classify` takes.

    What validates there is tested on here. A class of which an image of VOC shows only "difficult"
    objects is unknown.

    Args:
        root: The folder.
        seed: Seed of the draw of test images where the folder has no splits.
        class_folders: Take a folder per class, whatever other files lie there.
    """
    if not isinstance(root, str | Path):
        raise UserTypeError(f"data must be a labelled folder, but got a {type(root).__name__}.")
    found = find_labels(root, "classify", seed=seed, measured=False, class_folders=class_folders)
    train, test = found.count(found.train), found.count(found.val)
    for name, *counts in zip(found.classes, train, test, strict=True):
        if found.is_single_label and 0 in counts:
            raise UserValueError(
                "every class must have images to fit and to test on, but of "
                f"{name!r} in {found.root} {counts[0]} and {counts[1]} are left; add images, or "
                "remove the class."
            )
    num = len(found.classes)
    return ProbeData(found, _split("train", found.train, num), _split("val", found.val, num))


def extract_split(
    model: FeatureBackbone,
    split: LabelledSplit,
    options: FeatureOptions,
    *,
    log: Callable[[str], object] = lambda line: None,
) -> tuple[Tensor, Tensor]:
    """Return features (N, C) and labels (N, K) of a split's images, those of their centres.

    Unreadable images are left out; ``log`` receives a line about them.
    """
    read = partial(_read, split.paths)
    batches = list(extract(model, read, range(len(split.paths)), Crops(model.image_px), options))
    good = [index for batch in batches for index in batch.indices]
    bad = [(split.paths[index], why) for batch in batches for index, why in batch.unreadable]
    require_readable(len(good), bad)
    if bad:
        log(
            f"{len(bad):,} images of {split.name} cannot be read and are left out "
            f"(first {bad[0][0]}: {bad[0][1]})"
        )
    features = [batch.features[:, 0] for batch in batches if batch.indices]
    return torch.cat(features), split.labels[good]


def _read(paths: Sequence[str], index: int) -> Tensor:
    return read_image(paths[index])


def _split(name: str, images: Sequence[LabelledImage], num_classes: int) -> LabelledSplit:
    labels = [
        target(num_classes, list(image.labels - image.unknown), list(image.unknown))
        for image in images
    ]
    paths = [image.path for image in images]
    return LabelledSplit(name, paths, torch.from_numpy(np.stack(labels)).to(torch.int8))
