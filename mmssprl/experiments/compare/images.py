"""Which images are trained on, and which the probe fits and scores: finally, and while tuning."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...datasets.subset import choose_subset
from ...errors import UserValueError
from ...features.probe_data import (
    COCO_SPLITS,
    VOC_SPLITS,
    LabelledSplit,
    ProbeData,
    find_probe_data,
)
from ...system.outputs import write_whole

Split = Literal["test", "held-out"]
HELD_OUT = 0.2
"""Share of the training images that scores the learning rates."""


@dataclass(frozen=True)
class TrainingImages:
    """The images that the runs of a split are trained on.

    Args:
        list_file: Their paths, for ``UnlabeledImages``.
        num_images: Of them.
        digest: SHA-256 of their names in their order.
        labelled: Config of the data set that also has their labels, without its pipeline.
        num_classes: Of the labels.
    """

    list_file: Path
    num_images: int
    digest: str
    labelled: dict[str, Any]
    num_classes: int


def read_images(data: Path, split: Split) -> ProbeData:
    """Read the labelled images of a folder for the final runs or for the tuning.

    Args:
        data: Folder in COCO or VOC layout, see ``find_probe_data``.
        split: 'test': its own training and test images. 'held-out': a fifth of the training images
            in place of the test images, always the same ones, and the rest in place of all.

    Raises:
        FileNotFoundError, ValueError: As ``find_probe_data``, or test images that are among the
            training images.
    """
    found = find_probe_data(data)
    both = set(found.train.paths) & set(found.test.paths)
    if both:
        raise UserValueError(
            f"no test image may be trained on, but {len(both)} of {data} are in both splits (first "
            f"{min(both)}); take them out of one list."
        )
    if split == "test":
        return found
    train = _part(found.train, "rest", _rest(found))
    return replace(found, train=train, test=_part(found.train, "held-out", _held_out(found)))


def list_images(folder: Path, data: Path, split: Split, *, writes: bool = True) -> TrainingImages:
    """List the training images in a file of a folder; arguments as for ``read_images``."""
    images = read_images(data, split)
    path = folder / f"images_of_{split}_runs.txt"
    paths = [Path(name).resolve() for name in images.train.paths]
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{each}\n" for each in paths))
    names = "\n".join(each.name for each in paths)
    return TrainingImages(
        path.resolve(),
        len(paths),
        hashlib.sha256(names.encode()).hexdigest()[:16],
        _labelled(images, None if split == "test" else _rest(find_probe_data(data))),
        len(images.classes),
    )


def _labelled(images: ProbeData, indices: list[int] | None) -> dict[str, Any]:
    root = str(images.root)
    dataset: dict[str, Any] = {"data_root": root, "indices": indices}
    if images.layout == "COCO":
        return dataset | {
            "type": "CocoMultiLabel",
            "ann_file": f"annotations/instances_{COCO_SPLITS[0]}.json",
            "data_prefix": f"{COCO_SPLITS[0]}/",
        }
    return dataset | {
        "type": "VocMultiLabel",
        "split": VOC_SPLITS[0],
        "classes": images.classes,
    }


def _held_out(images: ProbeData) -> list[int]:
    return choose_subset(range(len(images.train.paths)), HELD_OUT)


def _rest(images: ProbeData) -> list[int]:
    return sorted(set(range(len(images.train.paths))) - set(_held_out(images)))


def _part(split: LabelledSplit, name: str, indices: list[int]) -> LabelledSplit:
    return LabelledSplit(name, [split.paths[i] for i in indices], split.labels[indices])
