"""COCO 2014: the images and the instance annotations of train2014 and val2014."""

from pathlib import Path

from ..datasets.coco_file import LISTS, read_coco
from .finding import MISSING, MOVE_AWAY, OK, WRONG, Archive, Finding, check_files, judge_count

TREE = """\
DIR/
  annotations/instances_train2014.json
  annotations/instances_val2014.json
  train2014/COCO_train2014_*.jpg          82,783 images
  val2014/COCO_val2014_*.jpg              40,504 images
"""
SPLITS = {"train2014": 82_783, "val2014": 40_504}
NUM_CATEGORIES = 80
_HOST = "http://images.cocodataset.org"
_ANNOTATIONS = Archive(f"{_HOST}/annotations/annotations_trainval2014.zip", "241 MB")
_SIZES = {"train2014": "13 GB", "val2014": "6 GB"}


def check(root: Path, *, any_size: bool = False) -> list[Finding]:
    """Look at annotations and images."""
    findings = []
    for split in SPLITS:
        found, images = _check_annotations(root, split, any_size)
        fetch = Archive(f"{_HOST}/zips/{split}.zip", _SIZES[split]).commands(root)
        findings += [found, check_files(root / split, images, fetch)]
    return findings


def _check_annotations(root: Path, split: str, any_size: bool) -> tuple[Finding, list[str]]:
    """Return the finding and the names of the images, none if the file cannot be used."""
    name = f"annotations/instances_{split}.json"
    fetch = _ANNOTATIONS.commands(root)
    try:
        content = read_coco(root / name, *LISTS)
    except FileNotFoundError:
        return Finding(name, MISSING, "no such file", fetch), []
    except ValueError as error:
        detail = str(error).removeprefix(f"{root / name}: ")
        return Finding(name, WRONG, detail, MOVE_AWAY + fetch), []
    images = [image["file_name"] for image in content["images"]]
    count = len(content["categories"])
    what = f"images, {len(content['annotations']):,} annotations, {count} categories"
    found = judge_count(name, len(images), SPLITS[split], what, any_size=any_size, remedy=fetch)
    if found.status == OK and not any_size and count != NUM_CATEGORIES:
        found = judge_count(name, count, NUM_CATEGORIES, "categories", any_size=False, remedy=fetch)
    return found, images
