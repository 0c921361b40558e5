"""What the checks of VOC2007 and VOC2012 share: where the year's folder is, its lists."""

from pathlib import Path

from ..datasets.labels.masks import VOC_CLASSES
from ..datasets.labels.voc import listed_names
from .archives import Archive
from .finding import MISSING, MOVE_AWAY, WRONG, Finding, judge_count

CLASSES = VOC_CLASSES[1:]
"""The 20 classes, without the background."""


def archive(year: str, name: str, size: str) -> Archive:
    """Return an official archive of a year, such as "VOC2007"."""
    url = f"http://host.robots.ox.ac.uk/pascal/VOC/{year.lower()}/{name}"
    return Archive(url, size, member=f"VOCdevkit/{year}")


def find_year(root: Path, name: str) -> Path:
    """Return the folder of a year: ``root``, or NAME or VOCdevkit/NAME in it, or yet to be made."""
    for folder in (root / "VOCdevkit" / name, root / name, root):
        if (folder / "ImageSets").is_dir():
            return folder
    given = root.absolute().name  # "." has none
    if given == name:
        return root
    return root / name if given == "VOCdevkit" else root / "VOCdevkit" / name


def check_list(
    root: Path, file: str, expected: int, remedy: str, *, any_size: bool
) -> tuple[Finding, list[str]]:
    """Read the list ``root / file`` and count its images; return the names too, each once."""
    if not (root / file).is_file():
        return Finding(file, MISSING, f"no {root / file}", remedy), []
    text = (root / file).read_text(encoding="utf-8", errors="replace")
    names = listed_names(text.splitlines())
    once = list(dict.fromkeys(names))
    if len(once) < len(names):
        return Finding(file, WRONG, "some images are named twice", MOVE_AWAY + remedy), once
    found = judge_count(file, len(names), expected, "images", any_size=any_size, remedy=remedy)
    return found, names
