"""ImageNet-1k (ILSVRC 2012): the training images, and the validation images if they are there."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..console.progress import watch
from ..datasets.image_index import IMAGE_SUFFIXES
from .archives import Archive
from .finding import MISSING, OK, WRONG, Finding, judge_count
from .samples import check_sample

TREE = """\
DIR/
  train/nXXXXXXXX/*.JPEG                  1,000 folders, 1,281,167 images
  val/                                    50,000 images, in class folders or flat; not needed for
                                          pre-training
"""
NUM_CLASSES, NUM_TRAIN, NUM_VAL = 1_000, 1_281_167, 50_000

_TRAIN = Archive("ILSVRC2012_img_train.tar", "138 GB")
_VAL = Archive("ILSVRC2012_img_val.tar", "6.3 GB")
_ACCOUNT = "# needs an account at https://image-net.org (download, ILSVRC 2012)"


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Count folders and images, and decode a sample."""
    return [*_check_train(root, any_size), *_check_val(root, any_size)]


def _check_train(root: Path, any_size: bool) -> list[Finding]:
    train = root / "train"
    fetch = f"{_ACCOUNT}\n{_TRAIN.commands(train, keep_in=root)}\n{_unpack_classes(train)}"
    if not train.is_dir():
        return [Finding("train/", MISSING, f"no folder {train}", fetch)]
    folders, archives = [], 0
    with os.scandir(train) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name.startswith("n"):
                folders.append(entry.name)
            archives += entry.name.startswith("n") and entry.name.endswith(".tar")
    if archives:
        detail = (
            f"{archives:,} archives n*.tar and {len(folders):,} folders: not unpacked, or not "
            "removed since; pre-training reads either, not both"
        )
        return [Finding("train/", MISSING, detail, _unpack_classes(train))]
    files, empty = _list_images(train, sorted(folders))
    findings = [
        judge_count(
            "train/: classes", len(folders), NUM_CLASSES, "folders", any_size=any_size, remedy=fetch
        ),
        judge_count(
            "train/: images", len(files), NUM_TRAIN, "images", any_size=any_size, remedy=fetch
        ),
    ]
    if empty:
        detail = f"{len(empty):,} folders without an image, first {empty[0]}"
        findings.append(Finding("train/: empty folders", WRONG, detail, fetch))
    if files:
        replace = _TRAIN.commands(train, keep_in=root, replace=True)
        replace = f"{_ACCOUNT}\n{replace}\n{_unpack_classes(train, replace=True)}"
        findings.append(check_sample("train", train, files, replace))
    return findings


def _check_val(root: Path, any_size: bool) -> list[Finding]:
    val = root / "val"
    if not val.is_dir():
        return [Finding("val/", OK, "not there; pre-training reads train/ only")]
    fetch = f"{_ACCOUNT}\n{_VAL.commands(val, keep_in=root)}"
    with os.scandir(val) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir())
    files, _ = _list_images(val, folders or [""])
    layout = f"images in {len(folders):,} class folders" if folders else "images, flat"
    found = judge_count("val/", len(files), NUM_VAL, layout, any_size=any_size, remedy=fetch)
    if not files:
        return [found]
    replace = f"{_ACCOUNT}\n{_VAL.commands(val, keep_in=root, replace=True)}"
    return [found, check_sample("val", val, files, replace)]


def _list_images(root: Path, folders: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the images in the folders, as names below ``root``, and the folders without one."""
    files, empty = [], []
    for folder in watch(folders, f"{root.name}: listing folders"):
        names = os.listdir(root / folder)
        images = [name for name in names if name.lower().endswith(IMAGE_SUFFIXES)]
        files += [f"{folder}/{name}" if folder else name for name in images]
        if not images:
            empty.append(folder)
    return files, empty


def _unpack_classes(train: Path, *, replace: bool = False) -> str:
    """Give the shell command that unpacks the archive of each class into a folder of its name.

    Each archive goes when it is unpacked, as pre-training refuses a folder with both.
    """
    archives = shlex.quote(str(train)) + "/n*.tar"
    options = "" if replace else " --skip-old-files"
    return (
        f'for a in {archives}; do mkdir -p "${{a%.tar}}" && '
        f'tar -xf "$a" -C "${{a%.tar}}"{options} && rm "$a"; done'
    )
