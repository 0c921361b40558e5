"""Labelled images to fit a probe on and to test it on.

Legend: N images and K classes of a split.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..datasets.channel_images import read_as
from ..datasets.labels import LabelledData, LabelledImage, find_labels
from ..datasets.labels.labelled_images import groups_of
from ..datasets.multi_label import target
from ..errors import UserError, UserFileNotFoundError, UserValueError, text_of
from ..features.backbone import FeatureBackbone
from ..features.crops import Crops
from ..features.extract import Batch, FeatureOptions, extract


@dataclass(frozen=True)
class LabelledSplit:
    """Image files and their labels (N, K): 1 present, 0 absent, -1 unknown."""

    name: str
    paths: list[str]
    labels: Tensor
    groups: Tensor
    """int64 (N,), equal for images that show one picture."""

    def take(self, indices: list[int], name: str) -> "LabelledSplit":
        """Return a split with some of the images."""
        paths = [self.paths[i] for i in indices]
        return LabelledSplit(name, paths, self.labels[indices], self.groups[indices])


@dataclass(frozen=True)
class ProbeData:
    """The labels of a folder, split into images to fit on and images to test on."""

    labelled: LabelledData
    train: LabelledSplit
    test: LabelledSplit

    @property
    def classes(self) -> list[str]:
        """Names in the order of the K labels."""
        return self.labelled.classes


def find_probe_data(root: str | Path, *, seed: int = 0) -> ProbeData:
    """Read the labels of a folder as ``find_labels``; its validation images are the test images.

    The label of a class is unknown if a VOC image shows only "difficult" objects of it.
    """
    found = find_labels(root, "classify", seed=seed, measured=False)
    images = zip(found.classes, found.count(found.train), found.count(found.val), strict=True)
    for name, num_train, num_test in images:
        if found.is_single_label and not (num_train and num_test):
            raise UserValueError(
                f"every class must have images to fit and to test on, but {name!r} in {found.root} "
                f"has {num_train} and {num_test}; add images, or remove the class."
            )

    num = len(found.classes)
    return ProbeData(found, _split("train", found.train, num), _split("val", found.val, num))


def _split(name: str, images: Sequence[LabelledImage], num_classes: int) -> LabelledSplit:
    labels = [target(num_classes, [*x.known], [*x.unknown]) for x in images]
    paths = [image.path for image in images]
    groups = torch.tensor(groups_of(images))
    return LabelledSplit(name, paths, torch.from_numpy(np.stack(labels)).to(torch.int8), groups)


def read_masks(
    data: str | Path,
    images: ProbeData,
    *,
    seed: int = 0,
    log: Callable[[str], object] = lambda line: None,
) -> LabelledData | None:
    """Read the masks of the probed images; None if there are none, or if ``log`` said why not."""
    try:
        found = find_labels(data, "dense", seed=seed)
    except UserFileNotFoundError:
        return None
    except UserError as error:
        log(f"no mIoU: {text_of(error)}")
        return None
    masked = {image.path: image for image in (*found.train, *found.val)}
    train = [masked[path] for path in images.train.paths if path in masked]
    val = [masked[path] for path in images.test.paths if path in masked]
    return replace(found, train=train, val=val) if train and val else None


def extract_files(
    model: FeatureBackbone,
    name: str,
    paths: Sequence[str],
    crops: Crops,
    options: FeatureOptions,
    *,
    pooled: bool = True,
) -> Iterator[Batch]:
    """As ``extract``, for the files of a split; unreadable ones are logged."""
    bad = []
    read = partial(_read_file, paths, model.pixels)
    for batch in extract(model, read, paths, crops, options, pooled=pooled):
        bad += batch.unreadable
        yield batch

    if bad:
        first, reason = bad[0]
        options.log(
            f"{len(bad):,} images of {name} cannot be read and are left out "
            f"(first {first}: {reason})"
        )


def _read_file(paths: Sequence[str], like: Any, index: int) -> Tensor:
    return read_as(paths[index], like)
