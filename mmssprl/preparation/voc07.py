"""PASCAL VOC 2007: trainval and test with their labels and boxes.

``voc12aug`` finds the folder of its year and reads its lists by the same functions.
"""

from collections.abc import Sequence
from pathlib import Path

from ..datasets import VocMultiLabel
from ..datasets.labels.masks import VOC_CLASSES
from ..datasets.labels.voc import listed_names
from .finding import MISSING, MOVE_AWAY, OK, WRONG, Archive, Finding, judge_count

TREE = """\
DIR/VOCdevkit/VOC2007/                    or DIR is VOCdevkit or VOC2007 itself
  ImageSets/Main/trainval.txt             5,011 names
  ImageSets/Main/test.txt                 4,952 names
  ImageSets/Main/CLASS_trainval.txt       20 classes, for test too
  Annotations/*.xml
  JPEGImages/*.jpg
"""
CLASSES = VOC_CLASSES[1:]
"""The 20 classes, without the background."""
SPLITS = {"trainval": 5_011, "test": 4_952}


def archive(year: str, name: str, size: str) -> Archive:
    """Return an official archive of a year, such as "VOC2007"."""
    url = f"http://host.robots.ox.ac.uk/pascal/VOC/{year.lower()}/{name}"
    return Archive(url, size, member=f"VOCdevkit/{year}")


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


def find_year(root: Path, name: str) -> Path:
    """Return the folder of a year: ``root``, or NAME or VOCdevkit/NAME in it, or yet to be made."""
    for folder in (root / "VOCdevkit" / name, root / name, root):
        if (folder / "ImageSets").is_dir():
            return folder
    given = root.absolute().name  # "." has none
    if given == name:
        return root
    return root / name if given == "VOCdevkit" else root / "VOCdevkit" / name


def check_list(
    root: Path, file: str, expected: int, remedy: str, *, any_size: bool
) -> tuple[Finding, list[str]]:
    """Read the list ``root / file`` and count its images; return the names too, each once."""
    if not (root / file).is_file():
        return Finding(file, MISSING, f"no {root / file}", remedy), []
    text = (root / file).read_text(encoding="utf-8", errors="replace")
    names = listed_names(text.splitlines())
    once = list(dict.fromkeys(names))
    if len(once) < len(names):
        return Finding(file, WRONG, "some images are named twice", MOVE_AWAY + remedy), once
    found = judge_count(file, len(names), expected, "images", any_size=any_size, remedy=remedy)
    return found, names
