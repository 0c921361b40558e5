"""The images of a comparison: for training, and for the probe's fit and score."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...datasets.multi_label import PRESENT, UNKNOWN
from ...datasets.subset import choose_subset
from ...probing.data import ProbeData, find_probe_data
from ...system.outputs import write_whole

Split = Literal["test", "held-out"]
HELD_OUT = 0.2
"""Share of the training images on which learning rates are scored."""


@dataclass(frozen=True)
class TrainingImages:
    """The training images of a split.

    ``list_file`` has their paths, for ``UnlabeledImages``; ``labelled`` is the config of a data set
    with their labels, without a pipeline; ``digest`` is the SHA-256 of their names.
    """

    list_file: Path
    num_images: int
    digest: str
    labelled: dict[str, Any]
    num_classes: int


def read_images(data: Path, split: Split) -> ProbeData:
    """Read the labelled images of a folder for the final runs or for the tuning.

    'test' returns the folder's own training and test images. 'held-out' splits the training images:
    a fixed fifth of them is the test set.
    """
    found = find_probe_data(data)
    if split == "test":
        return found
    num = len(found.train.paths)
    held_out = choose_subset(range(num), HELD_OUT)
    rest = sorted(set(range(num)) - set(held_out))
    train, test = found.train.take(rest, "rest"), found.train.take(held_out, "held-out")
    return replace(found, train=train, test=test)


def list_images(folder: Path, data: Path, split: Split, *, writes: bool = True) -> TrainingImages:
    """Write the lists of the training images and of their labels, unless ``writes`` is False."""
    images = read_images(data, split)
    path = folder.resolve() / f"images_of_{split}_runs.txt"
    labels = path.with_name(f"labels_of_{split}_runs.json")
    paths = [Path(name).resolve() for name in images.train.paths]
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{each}\n" for each in paths))
        items = [
            {
                "img_path": str(each),
                "gt_label": (row == PRESENT).nonzero()[:, 0].tolist(),
                "gt_unknown": (row == UNKNOWN).nonzero()[:, 0].tolist(),
            }
            for each, row in zip(paths, images.train.labels, strict=True)
        ]
        content = {"metainfo": {"classes": images.classes}, "data_list": items}
        write_whole(labels, json.dumps(content))
    names = "\n".join(each.name for each in paths)
    return TrainingImages(
        path,
        len(paths),
        hashlib.sha256(names.encode()).hexdigest()[:16],
        {"type": "MultiLabelTargetDataset", "ann_file": str(labels)},
        len(images.classes),
    )
