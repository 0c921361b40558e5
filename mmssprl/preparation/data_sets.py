"""The data sets: the trees of their files, their official numbers and archives, and their checks.

A check looks below ``root`` and changes nothing.
"""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..console.progress import watch
from ..datasets import VocMultiLabel
from ..datasets.image_index import IMAGE_SUFFIXES
from ..datasets.labels.coco import LISTS, read_coco
from ..datasets.labels.voc import listed_names
from ..errors import UserFileNotFoundError
from .finding import MISSING, MOVE_AWAY, WRONG, Archive, Finding, check_files, judge_count

_COCO_TREE = """\
DIR/
  annotations/instances_train2014.json
  annotations/instances_val2014.json
  train2014/COCO_train2014_*.jpg          82,783 images
  val2014/COCO_val2014_*.jpg              40,504 images
"""
COCO_IMAGES = {"train2014": 82_783, "val2014": 40_504}
_COCO_HOST = "http://images.cocodataset.org"
_COCO_SIZES = {"train2014": "13 GB", "val2014": "6 GB"}

_VOC07_TREE = """\
DIR/VOCdevkit/VOC2007/                    or DIR is VOCdevkit or VOC2007 itself
  ImageSets/Main/trainval.txt             5,011 names
  ImageSets/Main/test.txt                 4,952 names
  ImageSets/Main/CLASS_trainval.txt       20 classes, for test too
  Annotations/*.xml
  JPEGImages/*.jpg
"""
VOC07_IMAGES = {"trainval": 5_011, "test": 4_952}
VOC_CLASSES = 20

_LABEL_FOLDER = "SegmentationClassAug"
_VOC12AUG_TREE = f"""\
DIR/VOCdevkit/VOC2012/                    or DIR is VOCdevkit or VOC2012 itself
  ImageSets/Segmentation/train.txt        1,464 names
  ImageSets/Segmentation/val.txt          1,449 names
  SegmentationClass/*.png
  JPEGImages/*.jpg
made of them and of SBD (benchmark_RELEASE, in DIR, VOCdevkit or VOCaug) by mmsegmentation:
  ImageSets/Segmentation/train_aug.txt    10,582 names
  {_LABEL_FOLDER}/*.png
"""
VOC12AUG_IMAGES = {"train": 1_464, "val": 1_449, "train_aug": 10_582}
_SBD = Archive(
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/"
    "benchmark.tgz",
    "1.4 GB",
)
_CONVERTER = (
    """"$(dirname "$(python -c 'from importlib.util import find_spec as f; """
    """print(f("mmseg").origin)')")"/.mim/tools/dataset_converters/voc_aug.py"""
)

_IMAGENET_TREE = """\
DIR/
  train/nXXXXXXXX/*.JPEG                  1,000 folders, 1,281,167 images
"""
IMAGENET_CLASSES, IMAGENET_IMAGES = 1_000, 1_281_167
_IMAGENET_TRAIN = Archive("ILSVRC2012_img_train.tar", "138 GB")
_ACCOUNT = "# needs an account at https://image-net.org (download, ILSVRC 2012)"


def _voc(year: str, name: str, size: str) -> Archive:
    url = f"http://host.robots.ox.ac.uk/pascal/VOC/{year.lower()}/{name}"
    return Archive(url, size, member=f"VOCdevkit/{year}")


_VOC_ARCHIVES = {
    "trainval": _voc("VOC2007", "VOCtrainval_06-Nov-2007.tar", "439 MB"),
    "test": _voc("VOC2007", "VOCtest_06-Nov-2007.tar", "431 MB"),
    "voc12aug": _voc("VOC2012", "VOCtrainval_11-May-2012.tar", "1.9 GB"),
}


def _check_coco(root: Path, any_size: bool) -> list[Finding]:
    findings = []
    for split, official in COCO_IMAGES.items():
        name = f"annotations/instances_{split}.json"
        url = f"{_COCO_HOST}/annotations/annotations_trainval2014.zip"
        fetch = Archive(url, "241 MB").commands(root)
        images: list[str] = []
        try:
            content = read_coco(root / name, *LISTS)
        except FileNotFoundError:
            found = Finding(name, MISSING, "no such file", fetch)
        except ValueError as error:
            detail = str(error).removeprefix(f"{root / name}: ")
            found = Finding(name, WRONG, detail, MOVE_AWAY + fetch)
        else:
            images = [image["file_name"] for image in content["images"]]
            counts = (f"{len(content[key]):,} {key}" for key in ("annotations", "categories"))
            what = f"images, {', '.join(counts)}"
            found = judge_count(name, len(images), official, what, any_size, fetch)
        fetch = Archive(f"{_COCO_HOST}/zips/{split}.zip", _COCO_SIZES[split]).commands(root)
        findings += [found, check_files(root / split, images, fetch)]
    return findings


def _check_voc07(root: Path, any_size: bool) -> list[Finding]:
    voc = find_year(root, "VOC2007")
    findings = []
    for split, official in VOC07_IMAGES.items():
        fetch = _VOC_ARCHIVES[split].commands(voc, keep_in=voc.parent)
        file = f"ImageSets/Main/{split}.txt"
        found, names = _check_list(voc, file, official, any_size, fetch)
        findings.append(found)
        if names:
            findings.append(_check_labels(voc, split, any_size, fetch))
    return findings


def _check_labels(voc: Path, split: str, any_size: bool, fetch: str) -> Finding:
    """Read the labels as the benchmark does."""
    title = f"{split}: labels and images"
    try:
        data = VocMultiLabel(data_root=str(voc), split=split)
    except FileNotFoundError as error:
        return Finding(title, MISSING, str(error), fetch)
    except ValueError as error:
        return Finding(title, WRONG, str(error), MOVE_AWAY + fetch)
    num_classes = len(data.metainfo["classes"])
    what = f"classes in {len(data):,} images"
    return judge_count(title, num_classes, VOC_CLASSES, what, any_size, fetch)


def _check_voc12aug(root: Path, any_size: bool) -> list[Finding]:
    """Look at VOC2012, and at what mmsegmentation makes of it and of SBD."""
    voc = find_year(root, "VOC2012")
    fetch = _VOC_ARCHIVES["voc12aug"].commands(voc, keep_in=voc.parent)
    make = _make_train_aug(root, voc)
    findings = []
    listed: dict[str, list[str]] = {}
    for split, official in VOC12AUG_IMAGES.items():
        file = f"ImageSets/Segmentation/{split}.txt"
        remedy = make if split == "train_aug" else fetch
        found, listed[split] = _check_list(voc, file, official, any_size, remedy)
        findings.append(found)
    own, added = listed["train"] + listed["val"], listed["train_aug"]
    findings.append(check_files(voc / "SegmentationClass", [f"{n}.png" for n in own], fetch))
    if added:
        findings.append(check_files(voc / _LABEL_FOLDER, [f"{n}.png" for n in added], make))
    images = [f"{name}.jpg" for name in dict.fromkeys(own + added)]
    return [*findings, check_files(voc / "JPEGImages", images, fetch)]


def _make_train_aug(root: Path, voc: Path) -> str:
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
        f"while read -r name; do cp {folder}/SegmentationClass/$name.png "
        f"{folder}/{_LABEL_FOLDER}/; done < {lists}/train.txt",
        f"LC_ALL=C sort {lists}/trainaug.txt > {lists}/train_aug.txt",
    ]
    return "\n".join(commands if places else [_SBD.commands(root), *commands])


def _check_imagenet(root: Path, any_size: bool) -> list[Finding]:
    train = root / "train"
    # Each archive goes when it is unpacked, as pre-training refuses a folder with both.
    unpack = (
        f'for a in {shlex.quote(str(train))}/n*.tar; do mkdir -p "${{a%.tar}}" && '
        'tar -xf "$a" -C "${a%.tar}" --skip-old-files && rm "$a"; done'
    )
    fetch = f"{_ACCOUNT}\n{_IMAGENET_TRAIN.commands(train, keep_in=root)}\n{unpack}"
    if not train.is_dir():
        return [Finding("train/", MISSING, f"no folder {train}", fetch)]
    folders = sorted(path.name for path in train.glob("n*") if path.is_dir())
    archives = list(train.glob("n*.tar"))
    if archives:
        detail = (
            f"{len(archives):,} archives n*.tar and {len(folders):,} folders: not unpacked, or not "
            "removed since; pre-training reads either, not both"
        )
        return [Finding("train/", MISSING, detail, unpack)]
    num_images = sum(
        name.lower().endswith(IMAGE_SUFFIXES)
        for folder in watch(folders, "train: listing folders")
        for name in os.listdir(train / folder)
    )
    return [
        judge_count(f"train/: {what}", count, official, what, any_size, fetch)
        for what, count, official in (
            ("folders", len(folders), IMAGENET_CLASSES),
            ("images", num_images, IMAGENET_IMAGES),
        )
    ]


def find_year(root: Path, name: str) -> Path:
    """Return the folder of a year: ``root``, or NAME or VOCdevkit/NAME in it, or yet to be made."""
    for folder in (root / "VOCdevkit" / name, root / name, root):
        if (folder / "ImageSets").is_dir():
            return folder
    given = root.absolute().name  # "." has none
    if given == name:
        return root
    return root / name if given == "VOCdevkit" else root / "VOCdevkit" / name


def _check_list(
    root: Path, file: str, official: int, any_size: bool, remedy: str
) -> tuple[Finding, list[str]]:
    """Read the list ``root / file`` and count its images; return the names too."""
    if not (root / file).is_file():
        return Finding(file, MISSING, f"no {root / file}", remedy), []
    text = (root / file).read_text(encoding="utf-8", errors="replace")
    names = listed_names(text.splitlines())
    return judge_count(file, len(names), official, "images", any_size, remedy), names


class DataSet(NamedTuple):
    """The files that a data set wants below its folder, and the check of a folder."""

    TREE: str
    check: Callable[[Path, bool], list[Finding]]


DATA_SETS = {
    "coco": DataSet(_COCO_TREE, _check_coco),
    "voc07": DataSet(_VOC07_TREE, _check_voc07),
    "voc12aug": DataSet(_VOC12AUG_TREE, _check_voc12aug),
    "imagenet": DataSet(_IMAGENET_TREE, _check_imagenet),
}


def check_data(name: str, root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look for the pieces of a data set.

    Args:
        name: Key of ``DATA_SETS``.
        root: Its folder, which need not be there.
        any_size: Other numbers of images and categories than the official ones are right too.

    Raises:
        FileNotFoundError: ``root`` is a file.
    """
    if root.exists() and not root.is_dir():
        raise UserFileNotFoundError(f"{root} must be a folder, but is a file; pass its folder.")
    return DATA_SETS[name].check(root, any_size)
