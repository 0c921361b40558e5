"""ImageNet-1k (ILSVRC 2012): the training images."""

import os
import shlex
from pathlib import Path

from ..console.progress import watch
from ..datasets.image_index import IMAGE_SUFFIXES
from .finding import MISSING, WRONG, Archive, Finding, judge_count

TREE = """\
DIR/
  train/nXXXXXXXX/*.JPEG                  1,000 folders, 1,281,167 images
"""
NUM_CLASSES, NUM_TRAIN = 1_000, 1_281_167
_TRAIN = Archive("ILSVRC2012_img_train.tar", "138 GB")
_ACCOUNT = "# needs an account at https://image-net.org (download, ILSVRC 2012)"


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Count folders and images."""
    train = root / "train"
    # Each archive goes when it is unpacked, as pre-training refuses a folder with both.
    unpack = (
        f'for a in {shlex.quote(str(train))}/n*.tar; do mkdir -p "${{a%.tar}}" && '
        'tar -xf "$a" -C "${a%.tar}" --skip-old-files && rm "$a"; done'
    )
    fetch = f"{_ACCOUNT}\n{_TRAIN.commands(train, keep_in=root)}\n{unpack}"
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
        return [Finding("train/", MISSING, detail, unpack)]
    num_images, empty = 0, []
    for folder in watch(folders, "train: listing folders"):
        count = sum(name.lower().endswith(IMAGE_SUFFIXES) for name in os.listdir(train / folder))
        num_images += count
        if not count:
            empty.append(folder)
    findings = [
        judge_count(f"train/: {what}", count, official, what, any_size=any_size, remedy=fetch)
        for what, count, official in (
            ("folders", len(folders), NUM_CLASSES),
            ("images", num_images, NUM_TRAIN),
        )
    ]
    if empty:
        detail = f"{len(empty):,} folders without an image, first {empty[0]}"
        findings.append(Finding("train/: empty folders", WRONG, detail, fetch))
    return findings
