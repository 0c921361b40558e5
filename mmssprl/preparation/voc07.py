"""PASCAL VOC 2007: trainval and test with their labels and boxes."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from mmssprl.preparation.archives import Archive
from mmssprl.preparation.finding import MISSING, OK, WRONG, Finding
from mmssprl.preparation.samples import check_files, check_sample
from mmssprl.preparation.voc_files import CLASSES, HOST, check_list, find_devkit

from ..console.progress import watch

TREE = """\
DIR/VOCdevkit/VOC2007/                    or DIR is VOCdevkit or VOC2007 itself
  ImageSets/Main/trainval.txt             5,011 names
  ImageSets/Main/test.txt                 4,952 names
  ImageSets/Main/CLASS_trainval.txt       20 classes, for test too
  Annotations/*.xml
  JPEGImages/*.jpg
"""
SPLITS = {"trainval": 5_011, "test": 4_952}

_MEMBER = "VOCdevkit/VOC2007"
_ARCHIVES = {
    "trainval": Archive(
        f"{HOST}/voc2007/VOCtrainval_06-Nov-2007.tar",
        "439 MB",
        md5="c52e279531787c972589f7e41ab4ae64",
        member=_MEMBER,
    ),
    "test": Archive(
        f"{HOST}/voc2007/VOCtest_06-Nov-2007.tar",
        "431 MB",
        md5="b6e924de25625d8de591ea690078ad9f",
        member=_MEMBER,
    ),
}


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look at lists, labels, annotations and images of both splits."""
    voc = find_devkit(root, "VOC2007")
    findings = []
    for split, expected in SPLITS.items():
        fetch = _ARCHIVES[split].commands(voc, keep_in=voc.parent)
        replace = _ARCHIVES[split].commands(voc, keep_in=voc.parent, replace=True)
        listing = f"ImageSets/Main/{split}.txt"
        found, names = check_list(voc, listing, expected, fetch, any_size=any_size)
        findings.append(found)
        if not names:
            continue
        findings.append(_check_labels(voc, split, names, fetch, replace))
        findings.append(_check_annotations(voc, split, names, fetch, replace))
        images = [f"{name}.jpg" for name in names]
        found = check_files(f"{split}: JPEGImages/", voc / "JPEGImages", images, fetch)
        findings.append(found)
        if found.status == OK:
            findings.append(check_sample(split, voc / "JPEGImages", images, replace))
    return findings


def _check_labels(voc: Path, split: str, names: Sequence[str], fetch: str, replace: str) -> Finding:
    """Read the lists of the 20 classes: each image once, with 1, 0 (difficult) or -1."""
    title = f"{split}: labels of {len(CLASSES)} classes"
    files = {label: voc / f"ImageSets/Main/{label}_{split}.txt" for label in CLASSES}
    absent = [path.name for path in files.values() if not path.is_file()]
    if absent:
        detail = f"{len(absent)} lists are not there, first {absent[0]}"
        return Finding(title, MISSING, detail, fetch)
    positives = 0
    for path in files.values():
        words = path.read_text(encoding="utf-8", errors="replace").split()
        labels = words[1::2]
        if sorted(words[::2]) != sorted(names) or not set(labels) <= {"-1", "0", "1"}:
            detail = f"{path.name} must give each image of {split}.txt one of -1, 0, 1"
            return Finding(title, WRONG, detail, replace)
        positives += labels.count("1")
    return Finding(title, OK, f"{positives:,} positive labels")


def _check_annotations(
    voc: Path, split: str, names: Sequence[str], fetch: str, replace: str
) -> Finding:
    """Parse the XML file of each image and count the objects."""
    title = f"{split}: Annotations/"
    found = check_files(title, voc / "Annotations", [f"{name}.xml" for name in names], fetch)
    if found.status != OK:
        return found
    num_objects = num_difficult = 0
    for name in watch(names, f"{split}: reading annotations"):
        path = voc / "Annotations" / f"{name}.xml"
        try:
            objects = list(ET.parse(path).iter("object"))
        except ET.ParseError as error:
            return Finding(title, WRONG, f"{path.name} is no XML ({error})", replace)
        for item in objects:
            label = item.findtext("name", "").strip()
            if label not in CLASSES:
                detail = f"{path.name} names {label!r}, which is none of the {len(CLASSES)} classes"
                return Finding(title, WRONG, detail, replace)
            num_difficult += item.findtext("difficult", "0").strip() == "1"
        num_objects += len(objects)
    detail = f"{len(names):,} files, {num_objects:,} objects, {num_difficult:,} of them difficult"
    return Finding(title, OK, detail)
