"""PASCAL VOC 2012 segmentation with the additional labels of SBD: "train_aug", 10,582 images."""

import shlex
from pathlib import Path

from ..datasets.image_opening import open_image
from ..datasets.labels.masks import read_indices, shown_indices
from .archives import Archive
from .finding import WRONG, Finding
from .samples import check_images, find_fault
from .voc import CLASSES, archive, check_list, find_year

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
NUM_TRAIN, NUM_VAL, NUM_TRAIN_AUG = 1_464, 1_449, 10_582
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
    fetch, replace = (_VOC.commands(voc, keep_in=voc.parent, replace=new) for new in (False, True))
    make = _make(root, voc)
    findings = []
    listed: dict[str, list[str]] = {}
    for split, (expected, remedy) in {
        "train": (NUM_TRAIN, fetch),
        "val": (NUM_VAL, fetch),
        "train_aug": (NUM_TRAIN_AUG, make),
    }.items():
        file = f"ImageSets/Segmentation/{split}.txt"
        found, listed[split] = check_list(voc, file, expected, remedy, any_size=any_size)
        common = sorted(set(listed[split]) & set(listed.get("val", ())))
        if split == "train_aug" and common:
            detail = f"{len(common):,} images are in val.txt too, first {common[0]}"
            found = Finding(file, WRONG, detail, remedy)
        findings.append(found)
    own = listed["train"] + listed["val"]
    names = {"SegmentationClass": own, LABEL_FOLDER: listed["train_aug"]}
    for folder, remedies in (("SegmentationClass", (fetch, replace)), (LABEL_FOLDER, (make, make))):
        files = [f"{name}.png" for name in names[folder]]
        if files or folder != LABEL_FOLDER:
            findings += check_images(f"{folder}/", voc / folder, files, *remedies, _fault)
    images = [f"{name}.jpg" for name in dict.fromkeys(own + listed["train_aug"])]
    return [*findings, *check_images("JPEGImages/", voc / "JPEGImages", images, fetch, replace)]


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
    lines = [
        "# with VOC2012 complete; this writes SegmentationClassAug/ and its lists anew",
        f"python {_CONVERTER} {shlex.quote(str(devkit))} {sbd}",
        f"while read -r name; do cp {folder}/SegmentationClass/$name.png {folder}/{LABEL_FOLDER}/; "
        f"done < {lists}/train.txt",
        f"LC_ALL=C sort {lists}/trainaug.txt > {folder}/{LIST_FILE}",
    ]
    return "\n".join([*([] if places else [_SBD.commands(root)]), *lines])


def _fault(path: Path) -> str:
    """Return what is wrong with a label image, nothing if it is right or has no image yet."""
    try:
        labels = read_indices(path, "it")
    except ValueError as error:
        return str(error)
    unknown = [label for label in shown_indices(labels) if label > len(CLASSES)]
    if unknown:
        return f"must have labels 0 to {len(CLASSES)} or 255, but has {unknown[:5]}"
    image = path.parents[1] / "JPEGImages" / f"{path.stem}.jpg"
    if find_fault(image):  # the sample of images tells of it
        return ""
    with open_image(image) as file:
        size = file.size
    same = labels.shape == size[::-1]
    return "" if same else f"has {labels.shape} and its image {size[::-1]} pixels (height, width)"
