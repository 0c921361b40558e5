"""The files below a folder, by name."""

import os
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from ...errors import UserFileNotFoundError, UserValueError
from ..image_index import IMAGE_SUFFIXES

MASK_FOLDERS = frozenset(
    ("masks", "mask", "labels", "annotations", "ann_dir", "gt", "labelids", "segmentationclass")
    + ("segmentationclassaug", "segmentationobject")
)
"""Folders whose images are label images, in lower case."""
_MOST_CLASSES = 100_000
CLASS_FILES = ("classes.txt", "class_names.txt", "labelmap.txt", "labels.txt", "obj.names")
"""Names of files that list the classes, in lower case."""


class Files:
    """All files below a folder, without the hidden ones.

    Args:
        root: The folder; symbolic links below it are followed, each folder once.

    Raises:
        FileNotFoundError: There is no such folder.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise UserFileNotFoundError(f"DATA must be an existing folder, but there is no {root}.")
        names = []
        seen = set()
        for folder, folders, found in os.walk(self.root, followlinks=True):
            here = os.path.realpath(folder)
            if here in seen:  # a link back up would never end
                folders.clear()
                continue
            seen.add(here)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            below = Path(folder).relative_to(self.root)
            names += [(below / name).as_posix() for name in found if not name.startswith(".")]
        self.names = sorted(names)

    def ending(self, *suffixes: str) -> list[str]:
        """Return the names with one of some suffixes, in upper or lower case."""
        return [name for name in self.names if name.lower().endswith(suffixes)]

    @cached_property
    def images(self) -> list[str]:
        """The names of the image files."""
        return self.ending(*IMAGE_SUFFIXES)

    def path(self, name: str) -> str:
        """Return the path of a name."""
        return str(self.root / name)

    def read_lines(self, name: str) -> list[str]:
        """Return the lines of a text file.

        Raises:
            ValueError: It is not in UTF-8.
        """
        try:
            return (self.root / name).read_text("utf-8-sig").splitlines()  # Windows adds a mark
        except UnicodeDecodeError as error:
            raise UserValueError(
                f"{name}: must be text in UTF-8, but {error.reason} in byte {error.start}; save it "
                "in UTF-8."
            ) from error

    def listed_classes(self) -> tuple[list[str], str] | None:
        """Return the classes that the lines of classes.txt name, and the file's name.

        Raises:
            ValueError: A blank line before others.
        """
        for name in self.ending(*CLASS_FILES):
            if Path(name).name.lower() in CLASS_FILES:
                # labelmap.txt of CVAT has name:colour:parts:actions and comments.
                lines = [line for line in self.read_lines(name) if not line.startswith("#")]
                titles = [line.split(":")[0].strip() for line in lines]
                while titles and not titles[-1]:
                    titles.pop()
                if "" in titles:
                    raise UserValueError(
                        f"{name}: each line must name a class, but that of index "
                        f"{titles.index('')} is blank; name it, or remove the line."
                    )
                return titles, name
        return None

    def numbered_classes(self, largest: int, warnings: list[str]) -> list[str]:
        """Return names for the classes up to an index where no file names them."""
        if largest > _MOST_CLASSES:
            raise UserValueError(
                f"an index of a class must be at most {_MOST_CLASSES:,}, but {largest:,} is there; "
                "correct the labels, or list all classes in DATA/classes.txt."
            )
        warnings.append(
            "the classes have no names: list them in DATA/classes.txt, one a line from index 0 on."
        )
        return [f"class {k}" for k in range(largest + 1)]

    @cached_property
    def photographs(self) -> list[str]:
        """The names of the image files that lie in no folder of label images."""
        return [name for name in self.images if not is_label_image(name)]

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for name in self.images:
            found[name.rpartition("/")[2]].append(name)
            found[Path(name).stem].append(name)
        return found

    def find_image(self, named: str, near: str, *, or_stem: bool = False) -> str | None:
        """Return the one image that an annotation file means, None if there is none.

        Args:
            named: What the file calls it: a file name, with or without folders before it; an
                absolute path may lead out of the root. Of several images of this name, those count
                that share most of these folders, and label images only if there are no others.
            near: Name of the annotation file; of several images that fit, the one counts whose
                folder shares most words with it (train2014/ with instances_train2014.json).
            or_stem: Whether ``named`` may lack the suffix.

        Raises:
            ValueError: Several images fit equally well.
        """
        parts = Path(named.replace("\\", "/")).parts
        if not parts:
            return None
        found = self._by_last_part.get(parts[-1], [])
        if or_stem and all(map(is_label_image, found)):
            found = self._by_last_part.get(Path(parts[-1]).stem, found)
        if all(map(is_label_image, found)) and os.path.isabs(named) and os.path.isfile(named):
            return named
        found = sorted(set(found))
        if len(found) > 1:
            found = _best(found, lambda name: _num_common_last(Path(name).parts[:-1], parts[:-1]))
        if len(found) > 1:
            found = _best(found, lambda name: not is_label_image(name))
        if len(found) > 1:
            found = _best(found, lambda name: len(words(name) & words(near)))
        if len(found) > 1:
            raise UserValueError(
                f"each image of {near} must be one file, but {named} is {found[0]} and {found[1]}; "
                "remove one, or give file names with their folders."
            )
        return found[0] if found else None


def is_label_image(name: str) -> bool:
    """Whether an image lies in a folder that is named like one of masks."""
    return any(part.lower() in MASK_FOLDERS for part in Path(name).parts[:-1])


def words(name: str) -> set[str]:
    """Return the parts of a path, and the words of its last one."""
    folder, _, last = name.rpartition("/")
    text = last.rpartition(".")[0].replace("-", "_").replace(".", "_")
    return {*folder.split("/"), *text.split("_")} - {""}


def _best(names: list[str], score: Callable[[str], int]) -> list[str]:
    best = max(map(score, names))
    return [name for name in names if score(name) == best]


def _num_common_last(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    count = 0
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if one != other:
            break
        count += 1
    return count
