"""Which images are trained on, and which the probe fits and scores: finally, and while tuning."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..datasets.subset import choose_subset
from ..errors import UserValueError
from ..evaluation.probe_data import LabelledSplit, ProbeData, find_probe_data
from ..outputs import write_whole

Split = Literal["test", "held-out"]
HELD_OUT = 0.2
"""Share of the training images that scores the learning rates."""


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
    held_out = choose_subset(range(len(found.train.paths)), HELD_OUT)
    rest = sorted(set(range(len(found.train.paths))) - set(held_out))
    train = _part(found.train, "rest", rest)
    return replace(found, train=train, test=_part(found.train, "held-out", held_out))


def write_list(folder: Path, images: ProbeData, split: Split) -> Path:
    """Write the paths of the training images into a list for ``UnlabeledImages``."""
    path = folder / f"images_of_{split}_runs.txt"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(name).resolve()) for name in images.train.paths]
    write_whole(path, "\n".join(paths) + "\n")
    return path


def _part(split: LabelledSplit, name: str, indices: list[int]) -> LabelledSplit:
    return LabelledSplit(name, [split.paths[i] for i in indices], split.labels[indices])
