"""Look up the files of a folder by name."""

import contextlib
import difflib
import os
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from ...console.paths import DATA_FILES, check_data
from ...errors import UserError, UserFileNotFoundError, UserValueError, refuse_damaged
from ..image_index import IMAGE_SUFFIXES, UNREAD_SUFFIXES, walk, without_raw
from .agreement import spelled
from .text_files import text_of

MASK_FOLDERS = frozenset(
    ("masks", "mask", "labels", "annotations", "ann_dir", "gt", "labelids", "segmentationclass")
    + ("segmentationclassaug", "segmentationobject")
)
"""Names of folders of label images, in lower case."""
CLASS_FILES = (
    *("classes.txt", "class_names.txt", "labelmap.txt", "labels.txt"),
    *("obj.names", "_darknet.labels"),  # of darknet, and of Roboflow's export for it
)
"""Names of files that list the classes, in lower case."""
_MOST_NAMED = 3
_MOST_LETTERS = 120
"""Largest number of letters of each missing name in a message."""
_MOST_COMPARED = 1000
_MOST_SETTINGS_BYTES = 10_000
"""Largest obj.data; larger files of this suffix hold something else."""


def data_folder(data: str | Path) -> Path:
    """Return the folder of labelled images, given as a folder, data.yaml or COCO .json."""
    path = check_data(data).resolve()
    if path.is_dir():
        return path
    if path.suffix.lower() != ".json":
        found = re.search(r"^path:\s*(.+?)\s*(?:\s#.*)?$", text_of(path, "replace"), re.MULTILINE)
        named = path.parent / found[1].strip("'\"") if found else path.parent
        return named.resolve() if named.is_dir() else path.parent

    is_among_labels = path.parent.name.lower() in MASK_FOLDERS
    return path.parents[1] if is_among_labels else path.parent


class Files:
    """All files in ``data_folder``; a given file replaces all other label files of its kind."""

    def __init__(self, data: str | Path) -> None:
        self.root = data_folder(data)
        self.unlisted: list[OSError] = []
        """Errors of the folders that cannot be listed."""
        names = []
        for below, own in walk(str(self.root), self.unlisted.append):
            names += [below + name for name in own]

        given = Path(data).resolve()
        self.is_one_file = given != self.root
        if self.is_one_file:
            is_coco = given.suffix.lower() == ".json"
            others = (*DATA_FILES, ".xml", ".txt") if is_coco else (*DATA_FILES, ".xml")
            names = [name for name in names if not name.lower().endswith(others)]
            names.append(os.path.relpath(given, self.root))

        self.names = sorted(names)

    def ending(self, *suffixes: str) -> list[str]:
        """Return the names with one of the suffixes, in upper or lower case."""
        return [name for name in self.names if name.lower().endswith(suffixes)]

    @cached_property
    def images(self) -> list[str]:
        """The names of all image files."""
        return self.ending(*IMAGE_SUFFIXES)

    @cached_property
    def unread(self) -> list[str]:
        """The names of all images in formats that are not read, see ``without_raw``."""
        return without_raw(self.ending(*UNREAD_SUFFIXES), self.images)

    @cached_property
    def photographs(self) -> list[str]:
        """The names of the image files that are not in a folder of label images."""
        return [name for name in self.images if not is_label_image(name)]

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.root / name)

    def read_lines(self, name: str) -> list[str]:
        """Return the lines of a text file; ValueError if it is not in UTF-8 or marked UTF-16."""
        with refuse_damaged(name, "text in UTF-8", "save it in UTF-8"):
            return text_of(self.root / name).splitlines()

    def darknet_settings(self) -> list[tuple[str, str, str]]:
        """Return file, key and value of each line of darknet's obj.data.

        Other files with its suffix, which hold weights or anything else, are left out. Paths of
        Windows get "/".
        """
        found = []
        for name in self.ending(".data"):
            if os.path.getsize(self.path(name)) > _MOST_SETTINGS_BYTES:
                continue
            with contextlib.suppress(UserError):  # it is no text
                parts = [line.partition("=") for line in self.read_lines(name)]
                found += [
                    (name, key.strip(), value.strip().replace("\\", "/")) for key, _, value in parts
                ]
        return found

    @cached_property
    def class_files(self) -> list[str]:
        """The names of the files that list the classes: ``CLASS_FILES``, and that of obj.data."""
        settings = self.darknet_settings()
        listed = {_last_part(path) for _, key, path in settings if key == "names"}
        known = listed.union(CLASS_FILES)
        return [name for name in self.names if _last_part(name) in known]

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for name in self.images:
            path = PurePosixPath(spelled(name))
            for key in {path.name, path.stem}:
                found[key].append(name)
        return found

    def find_image(self, named: str, near: str, *, is_moved: bool = False) -> str | None:
        """Return the image that the annotation file ``near`` calls ``named``; None if missing.

        The name may lack the suffix, and spell accents in another way. Its folders must match,
        anywhere below the root; only the last one for an absolute path, or if ``is_moved``. Of
        several images, those with most folders in common with the name are taken, then photographs,
        then those with most words in common with the annotation file, then the exact name.
        """
        parts = PurePosixPath(named.replace("\\", "/")).parts
        *folders, last = [*map(spelled, parts)] or [""]
        if folders and (folders[0] == "/" or folders[0].endswith(":")):
            is_moved = True
            del folders[0]
        folders = [folder for folder in folders if folder != ".."]
        least = min(1, len(folders)) if is_moved else len(folders)

        found = self._by_last_part.get(last, [])
        found = [name for name in found if _last_part(name) == last.lower()] or found
        if all(map(is_label_image, found)) and os.path.isabs(named) and os.path.isfile(named):
            return named

        def score(name: str) -> tuple[int, bool, int]:
            there = [spelled(part) for part in (self.root / name).parts[:-1]]
            common = len(os.path.commonprefix([there[::-1], folders[::-1]]))
            words, others = ({*re.split(r"[/_.-]", each)} for each in (name, near))
            return common, not is_label_image(name), len(words & others)

        scores = {name: own for name in found if (own := score(name))[0] >= least}
        best = [name for name, own in scores.items() if own == max(scores.values())]
        if len(best) > 1:  # their accents may differ
            common = scores[best[0]][0]
            best = [x for x in best if _ends_in(self.path(x), parts[-1 - common :])] or best
        if len(best) > 1:
            raise UserValueError(
                f"{near}: each name must match one image, but {named} is {best[0]} and {best[1]}; "
                "remove one, or write file names with folders."
            )
        return best[0] if best else None

    def find_images(self, named: Sequence[str], near: str, warnings: list[str]) -> list[str]:
        """Return the images that the annotation file ``near`` names, as ``find_image`` finds them.

        Names with other folders, URLs and names in another spelling match by their last part, and
        names with another suffix in their folder, with a warning, if each of them has exactly one
        image. Otherwise it raises FileNotFoundError.
        """
        found = {name: self.find_image(name, near) for name in named}
        missing = [name for name in named if found[name] is None]
        if not missing:
            return [str(found[name]) for name in named]

        by_name = defaultdict(list)
        for image in self.photographs:
            by_name[_last_name(image)].append(image)
        folders = {os.path.dirname(image) for image in found.values() if image}
        likely = {}
        for name in missing:
            likely[name] = by_name[_last_name(name)] or self._converted(name, near, folders)
        lost = [name for name in missing if len(likely[name]) != 1]
        found |= {name: images[0] for name, images in likely.items() if images}
        if lost or len({*found.values()}) < len(found):
            rule = f"{near}: each file_name must have its image in the data, in the named folders"
            refuse_missing(rule, lost or missing, len(named), self.unread)

        warnings.append(
            f"{near}: {len(missing)} of {len(named)} names lead to no image, for example "
            f"{missing[0]}: images with the same file name, or another suffix, are used, "
            f"{found[missing[0]]}."
        )
        return [str(found[name]) for name in named]

    def _converted(self, named: str, near: str, folders: Container[str]) -> list[str]:
        """Return the image with another suffix in the named folder, else in one of ``folders``.

        A converted image stays in its folder: depth/3.png is not rgb/3.jpg.
        """
        if not named.lower().endswith((*IMAGE_SUFFIXES, *UNREAD_SUFFIXES)):
            return []
        image = self.find_image(named.rpartition(".")[0], near)
        if image is None or is_label_image(image):
            return []
        is_there = not folders or os.path.dirname(image) in folders or re.search(r"[\\/]", named)
        return [image] if is_there else []


def _ends_in(path: str, parts: Sequence[str]) -> bool:
    """Whether a path ends in these folders and this name, with or without its suffix."""
    end = f"/{'/'.join(parts)}"
    return path.endswith(end) or path.rpartition(".")[0].endswith(end)


def _last_part(path: str) -> str:
    """Return the last part of a path in one spelling and lower case."""
    return spelled(path.rpartition("/")[2].lower())


def _last_name(named: str) -> str:
    """Return the name of the image in a path of any system, or in a URL."""
    parts = re.split(r"[\\/?=&#]", unquote(named))
    images = (part for part in reversed(parts) if part.lower().endswith(IMAGE_SUFFIXES))
    return spelled(next(images, parts[-1])).casefold()


def require_ann_file(ann_file: str | Path) -> None:
    """Raise FileNotFoundError if there is no such annotation file."""
    if not os.path.isfile(ann_file):
        raise UserFileNotFoundError(
            f"there is no ann_file {str(ann_file)!r}; correct the path, below data_root."
        )


def require_files(paths: Sequence[str], ann_file: str) -> None:
    """Raise FileNotFoundError unless all images that an annotation file names exist."""
    # Each folder is listed once: asking for each file is slow on a network drive.
    there: set[str] = set()
    for folder in {os.path.dirname(path) for path in paths}:
        with contextlib.suppress(OSError):
            there.update(os.path.join(folder, name) for name in os.listdir(folder or os.curdir))
    # Drives can ignore case, and folders can be readable but not listable.
    missing = [path for path in paths if path not in there and not os.path.exists(path)]
    rule = f"{ann_file}: each name must have its image below data_root and data_prefix"
    refuse_missing(rule, missing, len(paths))


def refuse_missing(
    what: str, missing: Sequence[str], total: int, unread: Sequence[str] = ()
) -> None:
    """Raise FileNotFoundError if something is missing; ``what`` says what must exist.

    ``unread`` are images in formats that are not read: the missing ones may be among them.
    """
    if missing:
        examples = [name[:_MOST_LETTERS] for name in missing[:_MOST_NAMED]]
        remedy = "add the missing files, or remove these entries"
        stems = {PurePosixPath(name).stem for name in missing}
        if alike := [name for name in unread if PurePosixPath(name).stem in stems]:
            remedy = f"{alike[0]} is of a format that is not read: convert such to JPEG or PNG"
        raise UserFileNotFoundError(
            f"{what}, but {len(missing)} of {total} have none, for example {examples}; {remedy}."
        )


def unlike(rule: str, name: str, images: Sequence[str]) -> str:
    """Return a message about a file without an image, with the image of the most similar name."""
    stems = {PurePosixPath(image).stem: image for image in images[:_MOST_COMPARED]}
    close = difflib.get_close_matches(PurePosixPath(name).stem, stems, 1, 0.0)
    near = f"the most similar image is {stems[close[0]]}" if close else "there are no images"
    return f"{rule}, but {name} has no image, and {near}; rename or move them."


def check_indices(
    shown: Iterable[tuple[str, Iterable[int]]], classes: Sequence[object], source: str
) -> None:
    """Raise ValueError if a file has an index beyond the classes of a ``source``."""
    for name, indices in shown:
        if beyond := [index for index in indices if index >= len(classes)]:
            raise UserValueError(
                f"{name}: each class must be an index of the {len(classes)} classes of {source}, "
                f"but got {beyond[0]}; list all classes there, or change the index."
            )


def is_label_image(name: str) -> bool:
    """Whether an image is in a folder with a name of ``MASK_FOLDERS``."""
    return any(part.lower() in MASK_FOLDERS for part in name.split("/")[:-1])
