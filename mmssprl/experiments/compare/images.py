"""The images of a comparison: for training, and for the probe's fit and score."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...datasets.labels.digests import digest_of_sizes
from ...datasets.labels.groups import hold_out, units_of
from ...datasets.labels.labelled_images import groups_of
from ...datasets.multi_label import PRESENT, UNKNOWN
from ...datasets.subset import choose_subset, rank
from ...probing.data import ProbeData, find_probe_data
from ...system.outputs import write_whole

Split = Literal["test", "held-out"]


@dataclass(frozen=True)
class TrainingImages:
    """The training images of a split."""

    list_file: Path  # of their paths, for ``UnlabeledImages``
    num_images: int
    digest: str  # SHA-256 of their names
    labelled: dict[str, Any]  # config of a data set with their labels, without a pipeline
    num_classes: int


def read_images(data: Path, split: Split) -> ProbeData:
    """Read labelled images; 'held-out' tests on a fixed fifth of the training images.

    It does not separate a group of images.
    """
    found = find_probe_data(data)
    if split == "test":
        return found
    everything = range(len(found.train.paths))
    units = sorted(units_of(groups_of(found.labelled.train)), key=lambda unit: rank(unit[0], 0))
    held_out = sorted(hold_out(units, max(1, round(0.2 * len(everything)))))
    train = found.train.take(sorted({*everything} - {*held_out}), "rest")
    return replace(found, train=train, test=found.train.take(held_out, "held-out"))


def digests_of_splits(data: ProbeData) -> dict[str, dict[str, str]]:
    """Return digests of the labels and of the images' sizes (bytes), of train and of val.

    Scores of others do not belong into one table. Runs on other training images are done again, so
    their key names these.
    """
    test_names = _digest_of_names(data.test.paths)
    train = f"{data.train.name}-{_digest_of_names(data.train.paths)}"
    found: dict[str, dict[str, str]] = {"labels": {}, "images": {}}
    for key, split, names in ((train, data.train, ""), (data.test.name, data.test, test_names)):
        labels = hashlib.sha256(split.labels.numpy().tobytes() + names.encode())
        found["labels"][key] = labels.hexdigest()[:16]
        found["images"][key] = digest_of_sizes(split.paths, data.labelled.root)[:16]
    return found


def _digest_of_names(paths: Sequence[str | Path]) -> str:
    names = "\n".join(Path(each).name for each in paths)
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def list_images(
    folder: Path, data: Path, split: Split, *, share: float = 1.0, writes: bool = True
) -> TrainingImages:
    """Write the lists of the training images and of their labels, unless ``writes`` is False.

    A ``share`` of the images are always the same ones, see ``choose_subset``.
    """
    images = read_images(data, split)
    train = images.train
    runs = f"{split}_runs"
    if share != 1:
        chosen = choose_subset(range(len(train.paths)), share)
        train = train.take(chosen, f"{share:.0%}")
        runs += f"-{share:g}"
    path = folder.resolve() / f"images_of_{runs}.txt"
    labels = path.with_name(f"labels_of_{runs}.json")
    paths = [Path(name).resolve() for name in train.paths]
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{each}\n" for each in paths))
        items = []
        for each, row in zip(paths, train.labels, strict=True):
            kinds = {"gt_label": PRESENT, "gt_unknown": UNKNOWN}
            found = {key: (row == kind).nonzero()[:, 0].tolist() for key, kind in kinds.items()}
            items.append({"img_path": str(each), **found})
        content = {"metainfo": {"classes": images.classes}, "data_list": items}
        write_whole(labels, json.dumps(content))
    digest = _digest_of_names(paths)
    labelled = {"type": "MultiLabelTargetDataset", "ann_file": str(labels)}
    return TrainingImages(path, len(paths), digest, labelled, len(images.classes))
