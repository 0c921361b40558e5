"""The files below a folder, by name."""

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from ...console.paths import check_path
from ...errors import UserFileNotFoundError, UserValueError, refuse_damaged
from ..image_index import IMAGE_SUFFIXES, walk

MASK_FOLDERS = frozenset(
    ("masks", "mask", "labels", "annotations", "ann_dir", "gt", "labelids", "segmentationclass")
    + ("segmentationclassaug", "segmentationobject")
)
"""Folders whose images are label images, in lower case."""
_MOST_CLASSES = 100_000
_MOST_NAMED, _MOST_LETTERS = 3, 120
CLASS_FILES = ("classes.txt", "class_names.txt", "labelmap.txt", "labels.txt", "obj.names")
"""Names of files that list the classes, in lower case."""


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

    def listed_classes(self) -> tuple[list[str], str] | None:
        """Return the classes that the lines of classes.txt name, and the file's name."""
        for name in self.ending(*CLASS_FILES):
            if PurePosixPath(name).name.lower() in CLASS_FILES:
                # labelmap.txt of CVAT has name:colour:parts:actions and comments.
                lines = [line for line in self.read_lines(name) if not line.startswith("#")]
                titles = [line.split(":")[0].strip() for line in lines]
                while titles and not titles[-1]:
                    titles.pop()
                if "" in titles:
                    raise UserValueError(
                        f"{name}: each line must name a class, but line {titles.index('') + 1} is "
                        "blank; name it, or remove the line."
                    )
                return titles, name
        return None

    def numbered_classes(self, largest: int, warnings: list[str]) -> list[str]:
        """Return names for the classes up to an index where no file names them."""
        if largest > _MOST_CLASSES:
            raise UserValueError(
                f"an index of a class must be at most {_MOST_CLASSES:,}, but {largest:,} is there; "
                "correct the labels, or list all classes in classes.txt in the folder of data."
            )
        warnings.append(
            "the classes have no names: list them in classes.txt in the folder of data, "
            "one a line from index 0 on."
        )
        return [f"class {k}" for k in range(largest + 1)]

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for name in self.images:
            path = PurePosixPath(name)
            found[path.name].append(name)
            found[path.stem].append(name)
        return found

    def find_image(self, named: str, near: str, *, is_moved: bool = False) -> str | None:
        """Return the one image that the annotation file ``near`` means, None if there is none.

        It is named with its suffix or without, and lies in the folders that are named with it,
        anywhere below the root; of an absolute path, or if it ``is_moved``, in the last one. Of
        several such images those count that share most folders with the name, then photographs,
        then those that share most words with the annotation file.
        """
        *folders, last = PurePosixPath(named.replace("\\", "/")).parts or ("",)
        if folders and (folders[0] == "/" or folders[0].endswith(":")):
            is_moved = True
            del folders[0]
        folders = [folder for folder in folders if folder != ".."]
        least = min(1, len(folders)) if is_moved else len(folders)
        found = self._by_last_part.get(last, [])
        if all(map(is_label_image, found)) and os.path.isabs(named) and os.path.isfile(named):
            return named

        def num_common(name: str) -> int:
            there = list((self.root / name).parts[:-1])
            return len(os.path.commonprefix([there[::-1], folders[::-1]]))

        found = sorted({name for name in found if num_common(name) >= least})
        if len(found) > 1:
            scores = [(num_common(n), not is_label_image(n), _alike(n, near)) for n in found]
            pairs = zip(found, scores, strict=True)
            found = [name for name, score in pairs if score == max(scores)]
        if len(found) > 1:
            raise UserValueError(
                f"each image of {near} must be one file, but {named} is {found[0]} and {found[1]}; "
                "remove one, or give file names with their folders."
            )
        return found[0] if found else None

    def find_images(
        self, named: Sequence[str], near: str, rule: str, warnings: list[str]
    ) -> list[str]:
        """Return the images that the annotation file ``near`` means, each as by ``find_image``.

        Names with folders of elsewhere, addresses and names in other spelling count by their last
        part, with a warning, if each of them has one image alone in the data. FileNotFoundError by
        ``refuse_missing`` with the ``rule`` otherwise.
        """
        found = [self.find_image(name, near) for name in named]
        missing = [name for name, image in zip(named, found, strict=True) if image is None]
        by_name = defaultdict(list)
        for image in self.photographs if missing else ():
            by_name[_last_name(image)].append(image)
        likely = {name: by_name[_last_name(name)] for name in missing}
        lost = [name for name, images in likely.items() if len(images) != 1]
        taken = {name: images[0] for name, images in likely.items() if len(images) == 1}
        if lost or len({*taken.values(), *found} - {None}) < len({*named}):
            refuse_missing(rule, lost or missing, len(named))
        if missing:
            warnings.append(
                f"{near}: {len(missing)} of {len(named)} names lead to no image, for example "
                f"{missing[0]}; the images of the same last name are taken, {taken[missing[0]]}."
            )
        return [image or taken[name] for name, image in zip(named, found, strict=True)]


def _last_name(named: str) -> str:
    """Return the name of the image in a path of any system, or in an address."""
    parts = re.split(r"[\\/?=&#]", unquote(named))
    images = (part for part in reversed(parts) if part.lower().endswith(IMAGE_SUFFIXES))
    return next(images, parts[-1]).casefold()


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


def _alike(one: str, other: str) -> int:
    """Return how many words the paths of two files share."""
    left, right = (set(re.split(r"[/_.-]", name)) for name in (one, other))
    return len(left & right)
