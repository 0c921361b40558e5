"""PASCAL VOC 2012 segmentation with the additional labels of SBD: "train_aug", 10,582 images."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from mmssprl.preparation.archives import Archive
from mmssprl.preparation.finding import MISSING, OK, WRONG, Finding
from mmssprl.preparation.label_images import check_size, read_png_labels
from mmssprl.preparation.samples import check_files, check_sample, spread
from mmssprl.preparation.sbd import (
    LABEL_FOLDER,
    LIST_FILE,
    NUM_TRAIN_AUG,
    SBD_SPLITS,
    convert,
    find_sbd,
)
from mmssprl.preparation.voc_files import HOST, check_list, find_devkit, read_names

from ..console.progress import watch
from ..console.wording import command_line

__all__ = ["TREE", "check", "convert", "ready"]

TREE = """\
DIR/VOCdevkit/VOC2012/                    or DIR is VOCdevkit or VOC2012 itself
  ImageSets/Segmentation/train.txt        1,464 names
  ImageSets/Segmentation/val.txt          1,449 names
  SegmentationClass/*.png
  JPEGImages/*.jpg
DIR/benchmark_RELEASE/dataset/            SBD, in DIR, DIR/VOCdevkit or DIR/VOCdevkit/VOCaug
  train.txt                               8,498 names
  val.txt                                 2,857 names
  cls/*.mat
made by this command:
DIR/VOCdevkit/VOC2012/
  ImageSets/Segmentation/train_aug.txt    10,582 names
  SegmentationClassAug/*.png
"""
SPLITS = {"train": 1_464, "val": 1_449}
_VOC = Archive(
    f"{HOST}/voc2012/VOCtrainval_11-May-2012.tar",
    "1.9 GB",
    md5="6cd6e144f989b92b3379bac3b3de84fd",
    member="VOCdevkit/VOC2012",
)
_SBD = Archive(
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/"
    "benchmark.tgz",
    "1.4 GB",
    md5="82b4d87ceb2ed10f6038a1cba92111cb",
)


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look at VOC2012, at SBD, and at what ``convert`` makes of them."""
    voc = find_devkit(root, "VOC2012")
    fetch = _VOC.commands(voc, keep_in=voc.parent)
    replace = _VOC.commands(voc, keep_in=voc.parent, replace=True)
    findings = []
    listed: dict[str, list[str]] = {}
    for split, expected in SPLITS.items():
        file = f"ImageSets/Segmentation/{split}.txt"
        found, listed[split] = check_list(voc, file, expected, fetch, any_size=any_size)
        findings.append(found)
    images = listed["train"] + listed["val"]
    findings += _check_labels(voc, "SegmentationClass", images, fetch, replace)
    made = _check_made(root, voc, listed["val"], any_size)
    images += read_names(voc / LIST_FILE)
    if any(item.status != OK for item in made):  # SBD is not needed any more after that
        found_sbd, labelled = _check_sbd(root, voc, any_size)
        findings += found_sbd
        images += labelled
    files = [f"{name}.jpg" for name in dict.fromkeys(images)]
    found = check_files("JPEGImages/", voc / "JPEGImages", files, fetch)
    findings.append(found)
    if found.status == OK and files:
        findings.append(check_sample("JPEGImages", voc / "JPEGImages", files, replace))
    return findings + made


def ready(findings: Sequence[Finding]) -> bool:
    """Whether ``convert`` has all that it needs and something to do."""
    made = [item for item in findings if item.name.startswith((LIST_FILE, LABEL_FOLDER))]
    needed = [item.status == OK for item in findings if item not in made]
    status = {item.status for item in made}
    return all(needed) and MISSING in status and WRONG not in status


def _check_sbd(root: Path, voc: Path, any_size: bool) -> tuple[list[Finding], list[str]]:
    """Return the findings, and the names of the images that SBD labels."""
    fetch = _SBD.commands(root)
    sbd = find_sbd(root, voc)
    if sbd is None:
        detail = "no benchmark_RELEASE/dataset with cls/ and the lists"
        return [Finding("SBD", MISSING, detail, fetch)], []
    findings, names = [], []
    for split, expected in SBD_SPLITS.items():
        found, listed = check_list(sbd, f"{split}.txt", expected, fetch, any_size=any_size)
        findings.append(Finding(f"SBD {found.name}", found.status, found.detail, found.remedy))
        names += listed
    findings.append(check_files("SBD cls/", sbd / "cls", [f"{name}.mat" for name in names], fetch))
    return findings, names


def _check_made(root: Path, voc: Path, val: Sequence[str], any_size: bool) -> list[Finding]:
    """Look at what ``convert`` makes."""
    option = " --any-size" if any_size else ""
    make = command_line("prepare", "voc12aug", root) + option
    if not (voc / LIST_FILE).is_file():
        return [
            Finding(LIST_FILE, MISSING, "not made yet, it is written last", make),
            Finding(f"{LABEL_FOLDER}/", MISSING, "not finished without the list", make),
        ]
    again = f"# move it away first: {shlex.quote(str(voc / LIST_FILE))}\n{make}"
    found, names = check_list(voc, LIST_FILE, NUM_TRAIN_AUG, again, any_size=any_size)
    common = sorted(set(names) & set(val))
    if common:
        detail = f"{len(common):,} images are in val.txt too, first {common[0]}"
        found = Finding(LIST_FILE, WRONG, detail, again)
    redo = f"# move damaged files away first, from {shlex.quote(str(voc / LABEL_FOLDER))}\n{make}"
    return [found, *_check_labels(voc, LABEL_FOLDER, names, make, redo)]


def _check_labels(
    voc: Path, folder: str, names: Sequence[str], fetch: str, replace: str
) -> list[Finding]:
    """Look whether label images are there and read a sample of them."""
    files = [f"{name}.png" for name in names]
    found = check_files(f"{folder}/", voc / folder, files, fetch)
    if found.status != OK or not files:
        return [found]
    chosen = spread(sorted(names))
    for name in watch(chosen, f"{folder}: reading a sample"):
        path, image = voc / folder / f"{name}.png", voc / "JPEGImages" / f"{name}.jpg"
        try:
            labels = read_png_labels(path)
            if image.is_file():
                check_size(labels, path, image)
        except ValueError as error:
            return [found, Finding(f"{folder}: sample", WRONG, str(error), replace)]
    detail = f"{len(chosen)} of {len(files):,} have labels that exist, in their image's size"
    return [found, Finding(f"{folder}: sample", OK, detail)]
