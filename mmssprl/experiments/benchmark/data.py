"""Digests that show whether the data of protocols have changed in place."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config, ConfigDict

from ...console.progress import watch
from ...datasets.labels.digests import digest_of_sizes
from ...datasets.labels.split_lists import listed_names


class DataFiles(NamedTuple):
    """What a data set reads."""

    labels: list[Path]  # with lists and masks
    images: list[Path]


def digests_of_data(
    configs: Mapping[str, Config], prefix: str, root: Path
) -> dict[str, dict[str, str]]:
    """Return digests of all labels, and of the images' names and sizes (bytes), of each split.

    Data that are missing or damaged have none: the runs refuse them.

    Args:
        configs: Configs by the names of their protocols.
        prefix: Beginning of each ``data_root``, in place of which ``root`` stands.
        root: Folder of all data.
    """
    found: dict[str, dict[str, str]] = {"labels": {}, "images": {}}
    known: dict[str, tuple[str, str] | None] = {}  # protocols share data
    for (name, cfg), split in product(configs.items(), ("train", "test")):
        dataset = cfg[f"{split}_dataloader"].dataset
        folder = root / Path(dataset.data_root).relative_to(prefix)
        places = str([folder, *map(dataset.get, ("split", "ann_file", "data_prefix"))])
        if places not in known:
            known[places] = _digests_of(dataset, folder, root)
        digests = known[places]
        if digests is not None:
            found["labels"][f"{name}.{split}"], found["images"][f"{name}.{split}"] = digests
    return found


def _digests_of(dataset: ConfigDict, folder: Path, root: Path) -> tuple[str, str] | None:
    """Return the digests of labels and images; None if one is missing or a list is damaged."""
    try:
        files = files_of(dataset, folder)
        if not all(path.exists() for path in watch(files.images, "looking for images")):
            return None
        return _digest_of_bytes(files.labels, root), digest_of_sizes(files.images, root)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def files_of(dataset: ConfigDict, folder: Path) -> DataFiles:
    """Return the files of a data set whose ``data_root`` is ``folder``.

    Raises:
        OSError: Its list does not exist.
        ValueError, LookupError, TypeError: Its list is damaged.
    """
    if "split" in dataset:  # VocMultiLabel
        list_file = folder / "ImageSets" / "Main" / f"{dataset.split}.txt"
        names = listed_names(list_file.read_text().splitlines())
        annotations = [folder / "Annotations" / f"{name}.xml" for name in names]
        images = [folder / "JPEGImages" / f"{name}.jpg" for name in names]
        return DataFiles([list_file, *annotations], images)

    list_file = folder / dataset.ann_file
    places = dataset.data_prefix
    if "seg_map_path" in places:
        names = listed_names(list_file.read_text().splitlines())
        masks = [folder / places.seg_map_path / f"{name}.png" for name in names]
        images = [folder / places.img_path / f"{name}.jpg" for name in names]
        return DataFiles([list_file, *masks], images)

    place = places if isinstance(places, str) else places.img
    content = json.loads(list_file.read_bytes())
    images = [folder / place / image["file_name"] for image in content["images"]]
    return DataFiles([list_file], images)


def _digest_of_bytes(files: Sequence[Path], root: Path) -> str:
    """Return a digest of the places below ``root`` and of the bytes of files."""
    found = hashlib.sha256()
    for path in watch(files, "reading the labels", shown=len(files) > 1):
        found.update(os.fsencode(os.path.relpath(path, root)))
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
