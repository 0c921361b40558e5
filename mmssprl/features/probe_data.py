"""Labelled images in COCO or PASCAL VOC layout, or in a folder per class, found in a folder."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..datasets.coco_multi_label import CocoMultiLabel
from ..datasets.image_index import heic_remedy, kind_of
from ..datasets.labels import DEFAULT_VAL_SHARE, LabelledImage, folders
from ..datasets.labels.files import Files
from ..datasets.labels.splits import choose_splits
from ..datasets.multi_label_target import MultiLabelTargetDataset
from ..datasets.voc_multi_label import VocMultiLabel, listed_classes, read_image_set, read_objects
from ..errors import UserFileNotFoundError, UserValueError

COCO_SPLITS = ("train2014", "val2014")
VOC_SPLITS = ("trainval", "test")
_VOC_FOLDERS = ("VOCdevkit/VOC2007", "VOC2007", ".")
_LAYOUTS = (
    "annotations/instances_{train,val}2014.json with {train,val}2014/ (COCO) or "
    "[VOCdevkit/]VOC2007/ImageSets/Main/{trainval,test}.txt (VOC)"
)
_FOLDERS = "[{train,val}/]CLASS/*.jpg (a folder per class)"


@dataclass(frozen=True)
class LabelledSplit:
    """Image files and their labels (N, K): 1 present, 0 absent, -1 unknown."""

    name: str
    paths: list[str]
    labels: Tensor


@dataclass(frozen=True)
class ProbeData:
    """What a folder holds: the classes, the images to fit on and the images to test on.

    ``how`` tells how a folder per class was divided.
    """

    layout: Literal["COCO", "VOC", "folders"]
    root: Path
    classes: list[str]
    train: LabelledSplit
    test: LabelledSplit
    how: str = field(default="", kw_only=True)


def find_probe_data(root: str | Path, *, class_folders: bool = False, seed: int = 0) -> ProbeData:
    """Read the labels of a folder in COCO layout or in VOC layout, whichever it holds.

    COCO: train2014 against val2014, the classes of the json files. VOC: trainval against test of
    VOC2007, the classes that the per-class lists and the annotations name, in alphabetical order as
    in the benchmark; a class of which an image shows only "difficult" objects is unknown there.

    Args:
        root: The folder.
        class_folders: Take a folder per class too, as ``finetune`` reads and divides it.
        seed: Of the draw of test images where the folders name no split.

    Raises:
        FileNotFoundError: No such folder, no such layout, or a split or an image that is missing.
        ValueError: Both layouts, splits with different classes, or a file that cannot be read.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserFileNotFoundError(f"DATA must be an existing folder, but there is no {root}.")
    has_coco = any(_coco_json(root, split).is_file() for split in COCO_SPLITS)
    voc = next(
        (root / sub for sub in _VOC_FOLDERS if (root / sub / "ImageSets/Main").is_dir()), None
    )
    if has_coco and voc:
        raise UserValueError(
            f"DATA must be a folder in one layout, but {root} holds COCO's annotations/ and "
            f"VOC's {voc}; pass {voc} for VOC, or move one of them."
        )
    if has_coco:
        return _read_coco(root)
    if voc:
        return _read_voc(voc)
    inside = [sub for sub in ("coco", "voc") if (root / sub).is_dir()]
    remedy = f"; pass {root / inside[0]}" if inside else ""
    if class_folders and not inside:
        files = Files(root)
        if folders.is_there(files):
            return _read_folders(root, files, seed)
        heic = heic_remedy(map(kind_of, files.names))
        remedy = heic and f"; {heic}"
    layouts = f"{_LAYOUTS} or {_FOLDERS}" if class_folders else _LAYOUTS
    raise UserFileNotFoundError(f"DATA must hold {layouts}, but {root} does not{remedy}.")


def _coco_json(root: Path, split: str) -> Path:
    return root / "annotations" / f"instances_{split}.json"


def _read_coco(root: Path) -> ProbeData:
    splits, names = [], []
    for split in COCO_SPLITS:
        path = _coco_json(root, split)
        if not path.is_file():
            raise UserFileNotFoundError(
                f"DATA in COCO layout must have both {' and '.join(COCO_SPLITS)}, but there is no "
                f"{path}."
            )
        dataset = CocoMultiLabel(ann_file=str(path), data_prefix=str(root / split))
        splits.append(_labelled_split(split, dataset))
        names.append(list(dataset.metainfo["classes"]))
    if names[0] != names[1]:
        raise UserValueError(
            f"both splits must have the same classes, but {COCO_SPLITS[0]} has {len(names[0])} "
            f"and {COCO_SPLITS[1]} {len(names[1])} of them (differing in "
            f"{sorted(set(names[0]) ^ set(names[1]))[:3]}); make the json files agree."
        )
    return ProbeData("COCO", root, names[0], *splits)


def _read_voc(root: Path) -> ProbeData:
    main = root / "ImageSets/Main"
    classes = set(listed_classes(main))
    for split in VOC_SPLITS:
        if not (main / f"{split}.txt").is_file():
            raise UserFileNotFoundError(
                f"DATA in VOC layout must have both {' and '.join(VOC_SPLITS)}, but there is no "
                f"{main / split}.txt; the test annotations of VOC2007 are a download of their own."
            )
        for name in read_image_set(main / f"{split}.txt"):
            classes.update(read_objects(root / "Annotations" / f"{name}.xml"))
    names = sorted(classes)
    splits = [
        _labelled_split(split, VocMultiLabel(data_root=str(root), split=split, classes=names))
        for split in VOC_SPLITS
    ]
    return ProbeData("VOC", root, names, *splits)


def _read_folders(root: Path, files: Files, seed: int) -> ProbeData:
    classes, splits = folders.read(files, [])
    train, test, how = choose_splits(splits, share=DEFAULT_VAL_SHARE, seed=seed)
    for index, name in enumerate(classes):
        counts = [sum(image.label == index for image in images) for images in (train, test)]
        if 0 in counts:
            raise UserValueError(
                "every class must have images to fit and to test on, but of "
                f"{name!r} in {root} {counts[0]} and {counts[1]} are left; add images, or remove "
                "the class."
            )

    def split(name: str, images: list[LabelledImage]) -> LabelledSplit:
        labels = torch.tensor([image.label for image in images])
        one_hot = torch.nn.functional.one_hot(labels, len(classes))  # (N, K)
        return LabelledSplit(name, [image.path for image in images], one_hot.to(torch.int8))

    return ProbeData("folders", root, classes, split("train", train), split("val", test), how=how)


def _labelled_split(name: str, dataset: MultiLabelTargetDataset) -> LabelledSplit:
    items = [dataset.get_data_info(i) for i in range(len(dataset))]
    labels = torch.from_numpy(np.stack([item["gt_score"] for item in items])).to(torch.int8)
    return LabelledSplit(name, [item["img_path"] for item in items], labels)
