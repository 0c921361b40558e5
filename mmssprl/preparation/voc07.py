"""PASCAL VOC 2007: trainval and test with their labels and boxes."""

from collections.abc import Sequence
from pathlib import Path

from ..datasets import VocMultiLabel
from .finding import MISSING, MOVE_AWAY, OK, WRONG, Finding
from .voc import CLASSES, archive, check_list, find_year

TREE = """\
DIR/VOCdevkit/VOC2007/                    or DIR is VOCdevkit or VOC2007 itself
  ImageSets/Main/trainval.txt             5,011 names
  ImageSets/Main/test.txt                 4,952 names
  ImageSets/Main/CLASS_trainval.txt       20 classes, for test too
  Annotations/*.xml
  JPEGImages/*.jpg
"""
SPLITS = {"trainval": 5_011, "test": 4_952}
_ARCHIVES = {
    "trainval": archive("VOC2007", "VOCtrainval_06-Nov-2007.tar", "439 MB"),
    "test": archive("VOC2007", "VOCtest_06-Nov-2007.tar", "431 MB"),
}


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look at lists, annotations and images of both splits."""
    voc = find_year(root, "VOC2007")
    findings = []
    for split, expected in SPLITS.items():
        fetch = _ARCHIVES[split].commands(voc, keep_in=voc.parent)
        listing = f"ImageSets/Main/{split}.txt"
        found, names = check_list(voc, listing, expected, fetch, any_size=any_size)
        findings.append(found)
        if names:
            findings.append(_check_split(voc, split, names, fetch))
    return findings


def _check_split(voc: Path, split: str, names: Sequence[str], fetch: str) -> Finding:
    """Read the labels as the benchmark does."""
    title = f"{split}: labels and images"
    lists = [f"{name}_{split}.txt" for name in CLASSES]
    absent = [name for name in lists if not (voc / "ImageSets/Main" / name).is_file()]
    if absent:
        detail = f"{len(absent)} lists of classes are not there, first {absent[0]}"
        return Finding(title, MISSING, detail, fetch)
    try:
        dataset = VocMultiLabel(data_root=str(voc), split=split, classes=list(CLASSES))
    except FileNotFoundError as error:
        return Finding(title, MISSING, str(error), fetch)
    except ValueError as error:
        return Finding(title, WRONG, str(error), MOVE_AWAY + fetch)
    items = [dataset.get_data_info(index) for index in range(len(dataset))]
    shown = sum(len(item["gt_label"]) for item in items)
    difficult = sum(len(item["gt_unknown"]) for item in items)
    detail = f"{len(names):,} files, {shown:,} labels, {difficult:,} more are difficult"
    return Finding(title, OK, detail)
