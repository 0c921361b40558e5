"""COCO 2014: the images and the instance annotations of train2014 and val2014."""

from collections.abc import Sequence
from pathlib import Path

from ..datasets.coco_file import LISTS, read_coco
from .archives import Archive
from .finding import MISSING, OK, WRONG, Finding, judge_count
from .samples import check_files, check_sample

TREE = """\
DIR/
  annotations/instances_train2014.json
  annotations/instances_val2014.json
  train2014/COCO_train2014_*.jpg          82,783 images
  val2014/COCO_val2014_*.jpg              40,504 images
"""
SPLITS = {"train2014": 82_783, "val2014": 40_504}
NUM_CATEGORIES = 80

_SIDES = ("width", "height")
_HOST = "http://images.cocodataset.org"
_ANNOTATIONS = Archive(f"{_HOST}/annotations/annotations_trainval2014.zip", "241 MB")
_IMAGES = {
    "train2014": Archive(f"{_HOST}/zips/train2014.zip", "13 GB"),
    "val2014": Archive(f"{_HOST}/zips/val2014.zip", "6 GB"),
}


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look at annotations and images."""
    findings = []
    for split in SPLITS:
        found, images = _check_annotations(root, split, any_size)
        findings.append(found)
        findings += _check_images(root, split, images)
    return findings


def _check_annotations(root: Path, split: str, any_size: bool) -> tuple[Finding, list[dict]]:
    """Return the finding and the entries of the images, none if they cannot be used."""
    name = f"annotations/instances_{split}.json"
    fetch = _ANNOTATIONS.commands(root)
    replace = _ANNOTATIONS.commands(root, replace=True)
    try:
        content = read_coco(root / name, *LISTS)
    except FileNotFoundError:
        return Finding(name, MISSING, "no such file", fetch), []
    except ValueError as error:
        return Finding(name, WRONG, str(error).removeprefix(f"{root / name}: "), replace), []
    images = content["images"]
    for image in images:
        for side in _SIDES:
            if image.get(side) is None:
                detail = f"each image must have {side}, but {image} does not"
                return Finding(name, WRONG, detail, replace), []
    num_categories = len(content["categories"])
    also = f"{len(content['annotations']):,} annotations, {num_categories} categories"
    found = judge_count(
        name, len(images), SPLITS[split], f"images, {also}", any_size=any_size, remedy=fetch
    )
    if found.status == OK and num_categories != NUM_CATEGORIES and not any_size:
        found = judge_count(
            name, num_categories, NUM_CATEGORIES, "categories", any_size=False, remedy=fetch
        )
    return found, images


def _check_images(root: Path, split: str, images: Sequence[dict]) -> list[Finding]:
    archive = _IMAGES[split]
    sizes = {image["file_name"]: (image["width"], image["height"]) for image in images}
    found = check_files(f"{split}/", root / split, list(sizes), archive.commands(root))
    if found.status != OK:
        return [found]
    if not images:
        return [Finding(found.name, OK, "there, but without annotations not compared")]
    replace = archive.commands(root, replace=True)
    return [found, check_sample(split, root / split, list(sizes), replace, sizes=sizes)]
