"""PASCAL VOC 2012 segmentation with the additional labels of SBD: "train_aug", 10,582 images."""

import shlex
from pathlib import Path

from .finding import WRONG, Archive, Finding, check_files
from .voc07 import archive, check_list, find_year

LIST_FILE = "ImageSets/Segmentation/train_aug.txt"
LABEL_FOLDER = "SegmentationClassAug"
TREE = f"""\
DIR/VOCdevkit/VOC2012/                    or DIR is VOCdevkit or VOC2012 itself
  ImageSets/Segmentation/train.txt        1,464 names
  ImageSets/Segmentation/val.txt          1,449 names
  SegmentationClass/*.png
  JPEGImages/*.jpg
made of them and of SBD (benchmark_RELEASE, in DIR, VOCdevkit or VOCaug) by mmsegmentation:
  {LIST_FILE}    10,582 names
  {LABEL_FOLDER}/*.png
"""
NUMBERS = {"train": 1_464, "val": 1_449, "train_aug": 10_582}
_VOC = archive("VOC2012", "VOCtrainval_11-May-2012.tar", "1.9 GB")
_SBD = Archive(
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/"
    "benchmark.tgz",
    "1.4 GB",
)
_CONVERTER = (
    """"$(dirname "$(python -c 'from importlib.util import find_spec as f; """
    """print(f("mmseg").origin)')")"/.mim/tools/dataset_converters/voc_aug.py"""
)


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look at VOC2012, and at what mmsegmentation makes of it and of SBD."""
    voc = find_year(root, "VOC2012")
    fetch = _VOC.commands(voc, keep_in=voc.parent)
    make = _make(root, voc)
    findings = []
    listed: dict[str, list[str]] = {}
    for split, expected in NUMBERS.items():
        file = f"ImageSets/Segmentation/{split}.txt"
        remedy = make if split == "train_aug" else fetch
        found, listed[split] = check_list(voc, file, expected, remedy, any_size=any_size)
        common = sorted(set(listed[split]) & set(listed.get("val", ())))
        if split == "train_aug" and common:
            detail = f"{len(common):,} images are in val.txt too, first {common[0]}"
            found = Finding(file, WRONG, detail, remedy)
        findings.append(found)
    own, added = listed["train"] + listed["val"], listed["train_aug"]
    findings.append(check_files(voc / "SegmentationClass", [f"{n}.png" for n in own], fetch))
    if added:
        findings.append(check_files(voc / LABEL_FOLDER, [f"{n}.png" for n in added], make))
    images = [f"{name}.jpg" for name in dict.fromkeys(own + added)]
    return [*findings, check_files(voc / "JPEGImages", images, fetch)]


def _make(root: Path, voc: Path) -> str:
    """Return the commands that fetch SBD, if it is not there, and make train_aug.

    mmsegmentation takes SBD's labels where VOC has better ones of its own, and lists the images in
    an order that differs from run to run: two more lines put both right.
    """
    devkit = voc.absolute().parent  # "." has no parent
    places = [
        place
        for base in (root, devkit.parent, devkit, devkit / "VOCaug")
        for place in (base / "benchmark_RELEASE", base)
        if (place / "dataset" / "cls").is_dir()
    ]
    sbd = shlex.quote(str(places[0] if places else root / "benchmark_RELEASE"))
    folder = shlex.quote(str(voc))
    lists = f"{folder}/ImageSets/Segmentation"
    commands = [
        "# with VOC2012 complete; this writes SegmentationClassAug/ and its lists anew",
        f"python {_CONVERTER} {shlex.quote(str(devkit))} {sbd}",
        f"while read -r name; do cp {folder}/SegmentationClass/$name.png {folder}/{LABEL_FOLDER}/; "
        f"done < {lists}/train.txt",
        f"LC_ALL=C sort {lists}/trainaug.txt > {folder}/{LIST_FILE}",
    ]
    if not places:
        commands.insert(0, _SBD.commands(root))
    return "\n".join(commands)
