"""What the checks of VOC2007 and VOC2012 share: where the devkit is, its lists."""

from pathlib import Path

from mmssprl.preparation.finding import MISSING, WRONG, Finding, judge_count

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)
"""The 20 classes; in label images class i is i + 1, 0 is background and 255 is ignored."""

HOST = "http://host.robots.ox.ac.uk/pascal/VOC"


def find_devkit(root: Path, name: str) -> Path:
    """Return the folder of one year's devkit, or where it is to be made.

    ``root`` holds ``VOCdevkit/NAME`` or ``NAME``, or is it; the name is "VOC2007" or "VOC2012".
    """
    for folder in (root / "VOCdevkit" / name, root / name, root):
        if (folder / "ImageSets").is_dir():
            return folder
    given = root.absolute().name  # "." has none
    if given == name:
        return root
    return root / name if given == "VOCdevkit" else root / "VOCdevkit" / name


def read_names(path: Path) -> list[str]:
    """Return the names that a list gives, the first word of each line; none without a file."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def check_list(
    root: Path, file: str, expected: int, remedy: str, *, any_size: bool
) -> tuple[Finding, list[str]]:
    """Read the list ``root / file`` and count its images; return the names too, each once."""
    if not (root / file).is_file():
        return Finding(file, MISSING, f"no {root / file}", remedy), []
    names = read_names(root / file)
    if len(set(names)) < len(names):
        hint = "# move it away first\n"
        detail = "some images are named twice"
        return Finding(file, WRONG, detail, hint + remedy), list(dict.fromkeys(names))
    found = judge_count(file, len(names), expected, "images", any_size=any_size, remedy=remedy)
    return found, names
