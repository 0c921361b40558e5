"""ImageNet-1k (ILSVRC 2012): the training images."""

import os
import shlex
from pathlib import Path

from ..console.progress import watch
from ..datasets.image_index import IMAGE_SUFFIXES
from .archives import Archive
from .finding import MISSING, WRONG, Finding, judge_count
from .samples import check_sample

TREE = """\
DIR/
  train/nXXXXXXXX/*.JPEG                  1,000 folders, 1,281,167 images
"""
NUM_CLASSES, NUM_TRAIN = 1_000, 1_281_167
_TRAIN = Archive("ILSVRC2012_img_train.tar", "138 GB")
_ACCOUNT = "# needs an account at https://image-net.org (download, ILSVRC 2012)"


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Count folders and images, and decode a sample."""
    train = root / "train"
    fetch, replace = (
        f"{_ACCOUNT}\n{_TRAIN.commands(train, keep_in=root, replace=new)}\n"
        f"{_unpack_classes(train, replace=new)}"
        for new in (False, True)
    )
    if not train.is_dir():
        return [Finding("train/", MISSING, f"no folder {train}", fetch)]
    with os.scandir(train) as entries:
        of_classes = [entry for entry in entries if entry.name.startswith("n")]
    folders = sorted(entry.name for entry in of_classes if entry.is_dir())
    archives = [entry.name for entry in of_classes if entry.name.endswith(".tar")]
    if archives:
        detail = (
            f"{len(archives):,} archives n*.tar and {len(folders):,} folders: not unpacked, or not "
            "removed since; pre-training reads either, not both"
        )
        return [Finding("train/", MISSING, detail, _unpack_classes(train))]
    files, empty = [], []
    for folder in watch(folders, "train: listing folders"):
        names = os.listdir(train / folder)
        images = [f"{folder}/{name}" for name in names if name.lower().endswith(IMAGE_SUFFIXES)]
        files += images
        empty += [] if images else [folder]
    findings = [
        judge_count(f"train/: {what}", count, official, what, any_size=any_size, remedy=fetch)
        for what, count, official in (
            ("folders", len(folders), NUM_CLASSES),
            ("images", len(files), NUM_TRAIN),
        )
    ]
    if empty:
        detail = f"{len(empty):,} folders without an image, first {empty[0]}"
        findings.append(Finding("train/: empty folders", WRONG, detail, fetch))
    return [*findings, *check_sample("train/", train, files, replace)]


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
