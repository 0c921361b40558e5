"""The files below a folder, by name."""

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from ...console.paths import check_path
from ...errors import UserFileNotFoundError, UserValueError, refuse_damaged
from ..image_index import IMAGE_SUFFIXES, walk

CLASS_FILE = "classes.txt"
MASK_FOLDERS = frozenset(
    ("masks", "mask", "labels", "annotations", "ann_dir", "gt", "labelids", "segmentationclass")
    + ("segmentationclassaug", "segmentationobject")
)
"""Folders whose images are label images, in lower case."""
_MOST_CLASSES = 100_000
_MOST_NAMED, _MOST_LETTERS = 3, 120
_FILES = (".json", ".yaml", ".yml")
"""Suffixes of the files that may be given for their data."""


def data_folder(data: str | Path) -> Path:
    """Return the folder of labelled images, given itself or by its data.yaml or COCO .json.

    FileNotFoundError if there is none, ValueError for another file.
    """
    file, folder = "its data.yaml or COCO .json", "a folder of labelled images"
    path = check_path(data, "data", file=file, folder=folder, suffixes=_FILES).resolve()
    if path.is_dir():
        return path
    if path.suffix.lower() != ".json":
        found = re.search(r"^path:\s*(.+?)\s*$", path.read_text("utf-8", "replace"), re.MULTILINE)
        named = path.parent / found[1].strip("'\"") if found else path.parent
        return named.resolve() if named.is_dir() else path.parent
    return path.parents[path.parent.name.lower() in MASK_FOLDERS]


class Files:
    """All files below ``data_folder``, as ``walk`` visits them; of a given file's kind it alone."""

    def __init__(self, data: str | Path) -> None:
        self.root = data_folder(data)
        names = [below + name for below, own in walk(str(self.root)) for name in own]
        given = Path(data).resolve()
        if given != self.root:
            others = (*_FILES, ".xml", *([".txt"] if given.suffix.lower() == ".json" else []))
            names = [name for name in names if not name.lower().endswith(others)]
            names.append(os.path.relpath(given, self.root))
        self.names = sorted(names)

    def ending(self, *suffixes: str) -> list[str]:
        """Return the names with one of some suffixes, in upper or lower case."""
        return [name for name in self.names if name.lower().endswith(suffixes)]

    @cached_property
    def images(self) -> list[str]:
        """The names of the image files."""
        return self.ending(*IMAGE_SUFFIXES)

    @cached_property
    def photographs(self) -> list[str]:
        """The names of the image files that lie in no folder of label images."""
        return [name for name in self.images if not is_label_image(name)]

    def path(self, name: str) -> str:
        """Return the path of a name."""
        return str(self.root / name)

    def read_lines(self, name: str) -> list[str]:
        """Return the lines of a text file; ValueError if it is not in UTF-8."""
        with refuse_damaged(name, "text in UTF-8", "save it in UTF-8"):
            return (self.root / name).read_text("utf-8-sig").splitlines()  # Windows adds a mark

    def class_names(self, largest: int, warnings: list[str]) -> tuple[list[str], str]:
        """Return the lines of classes.txt, or names for the classes up to an index, and whence."""
        for name in self.ending(f"/{CLASS_FILE}") + [n for n in self.names if n == CLASS_FILE]:
            lines = [line.strip() for line in "\n".join(self.read_lines(name)).strip().split("\n")]
            if "" in lines:
                raise UserValueError(
                    f"{name}: each line must name a class, but line {lines.index('') + 1} is "
                    "blank; name it, or remove the line."
                )
            return lines, name
        if largest > _MOST_CLASSES:
            raise UserValueError(
                f"an index of a class must be at most {_MOST_CLASSES:,}, but {largest:,} is there; "
                f"correct the labels, or list all classes in {CLASS_FILE} in the folder of data."
            )
        warnings.append(
            f"the classes have no names: list them in {CLASS_FILE} in the folder of data, "
            "one a line from index 0 on."
        )
        return [f"class {k}" for k in range(largest + 1)], "the labels"

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for name in self.images:
            path = PurePosixPath(name)
            found[path.name].append(name)
            found[path.stem].append(name)
        return found

    def find_image(self, named: str, near: str) -> str | None:
        """Return the one image that the annotation file ``near`` means, None if there is none.

        It is named with its suffix or without, and lies in the folders that are named with it,
        anywhere below the root; an absolute path counts as it is. Of several such images
        photographs count, then those that share most words with the annotation file.
        """
        if os.path.isabs(named):
            return named if os.path.isfile(named) else None
        parts = PurePosixPath(named.replace("\\", "/")).parts
        *folders, last = [part for part in parts if part != ".."] or ("",)
        candidates = self._by_last_part.get(last, [])
        found = [n for n in candidates if _ends(list((self.root / n).parts[:-1]), folders)]
        if len(found) > 1:
            scores = [(not is_label_image(name), _alike(name, near)) for name in found]
            pairs = zip(found, scores, strict=True)
            found = [name for name, score in pairs if score == max(scores)]
        if len(found) > 1:
            raise UserValueError(
                f"each image of {near} must be one file, but {named} is {found[0]} and {found[1]}; "
                "remove one, or give file names with their folders."
            )
        return found[0] if found else None

    def find_images(self, named: Sequence[str], near: str, rule: str) -> list[str]:
        """Return the images that the annotation file ``near`` means, each as by ``find_image``.

        FileNotFoundError with the ``rule`` if some are missing.
        """
        found = [self.find_image(name, near) for name in named]
        missing = [name for name, image in zip(named, found, strict=True) if image is None]
        refuse_missing(rule, missing, len(named))
        return [image for image in found if image is not None]


def require_files(paths: Sequence[str], ann_file: str) -> None:
    """Raise FileNotFoundError unless all images are there that an annotation file names."""
    # Each folder is listed once: to ask for each file takes long on a network drive.
    there: set[str] = set()
    for folder in {os.path.dirname(path) for path in paths}:
        if os.path.isdir(folder or os.curdir) and os.access(folder or os.curdir, os.R_OK):
            there.update(os.path.join(folder, name) for name in os.listdir(folder or os.curdir))
    # A drive that ignores case, or a folder that may be entered but not listed.
    missing = [path for path in paths if path not in there and not os.path.exists(path)]
    rule = f"{ann_file}: every name must have its image below data_root and data_prefix"
    refuse_missing(rule, missing, len(paths))


def refuse_missing(what: str, missing: Sequence[str], total: int) -> None:
    """Raise FileNotFoundError if something is missing of what must be, of so many, in words."""
    if missing:
        examples = [name[:_MOST_LETTERS] for name in missing[:_MOST_NAMED]]
        raise UserFileNotFoundError(
            f"{what}, but {len(missing)} of {total} have none, for example {examples}; copy what "
            "is missing there, or remove what names it."
        )


def is_label_image(name: str) -> bool:
    """Whether an image lies in a folder that is named like one of masks."""
    return any(part.lower() in MASK_FOLDERS for part in name.split("/")[:-1])


def _ends(parts: list[str], last: list[str]) -> bool:
    return parts[len(parts) - len(last) :] == last


def _alike(one: str, other: str) -> int:
    """Return how many words the paths of two files share."""
    left, right = (set(re.split(r"[/_.-]", name)) for name in (one, other))
    return len(left & right)
