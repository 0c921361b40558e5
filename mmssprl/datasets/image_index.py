"""Find the images and the tar files below a folder."""

import logging
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mmengine.logging import print_log

from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.image_opening import READ_HEIC, can_read

from ..console.wording import counted
from ..errors import UserValueError

_HEIC = frozenset({".heic", ".heif"})
IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(suffix for suffix in (".avif", *sorted(_HEIC)) if can_read(suffix)),
)
"""What a folder is searched for, in upper, lower or mixed case."""

TAR_SUFFIX = ".tar"


@dataclass
class ImageIndex:
    """What is below a folder.

    Args:
        names: Paths of the images relative to the folder, sorted.
        tars: Paths of the tar files relative to the folder, sorted.
        unlisted: Errors of the folders that could not be listed.
        skipped: Number of other files by their kind, see ``kind_of``, without the hidden ones.
    """

    names: ImageNames
    tars: list[str]
    unlisted: list[str]
    skipped: Counter[str]


def index_images(folder: str) -> ImageIndex:
    """Search a folder and all folders below it.

    Symbolic links are followed, a folder is searched once however many ways lead to it, and hidden
    files and folders are left out.

    Args:
        folder: An existing folder.
    """
    found: list[str] = []
    tars: list[str] = []
    unlisted: list[str] = []
    seen: set[tuple[int, int]] = set()
    skipped: Counter[str] = Counter()
    left = [""]
    while left:
        below = left.pop()
        path, prefix = (f"{folder}/{below}", f"{below}/") if below else (folder, "")
        images, folders = [], []
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in seen:  # a link back up would never end
                continue
            with os.scandir(path) as entries:
                for entry in entries:
                    name = entry.name
                    if name.startswith("."):
                        continue
                    if _is_folder(entry):
                        folders.append(prefix + name)
                    elif name.lower().endswith(IMAGE_SUFFIXES):
                        images.append(prefix + name)
                    elif name.endswith(TAR_SUFFIX):
                        tars.append(prefix + name)
                    else:
                        skipped[kind_of(name)] += 1
        except OSError as error:
            unlisted.append(str(error))
            continue
        seen.add((status.st_dev, status.st_ino))
        found += sorted(images)  # the sort of all is then little more than a merge
        left += sorted(folders, reverse=True)
    found.sort()
    return ImageIndex(ImageNames.of(found), sorted(tars), unlisted, skipped)


def search_images(folder: str) -> ImageIndex:
    """Find the images or the tar files below a folder, which must hold one of the two."""
    index = index_images(folder)
    if index.unlisted:
        print_log(
            f"{counted(len(index.unlisted), 'folder')} below {folder} cannot be listed, their "
            f"images are left out: {index.unlisted[:3]}",
            logger="current",
            level=logging.WARNING,
        )
    if len(index.names) and index.tars:
        raise UserValueError(
            f"data_root/data_prefix: {folder!r} must hold images or tar files of images, but holds "
            f"{counted(len(index.names), 'image')} and {counted(len(index.tars), 'tar file')}, for "
            f"example {index.tars[0]}; move what is not meant to another folder, or give a tar "
            "file alone."
        )
    if not len(index.names) and not index.tars:
        found = [counted(index.skipped.total(), "other file")] if index.skipped else []
        if index.unlisted:
            found.append(f"{counted(len(index.unlisted), 'folder')} that cannot be listed")
        holds = f"holds {' and '.join(found)} alone" if found else "is empty"
        other = heic_remedy(index.skipped) or "decompress what is compressed"
        raise UserValueError(
            f"data_root/data_prefix: {folder!r} must hold images ({', '.join(IMAGE_SUFFIXES)}) or "
            f"uncompressed tar files ({TAR_SUFFIX}), but it {holds}; correct the path"
            f"{f', or {other}' if index.skipped else ''}."
        )
    if index.tars and index.skipped:
        print_log(
            f"{index.skipped.total():,} files beside the {len(index.tars):,} tar files of {folder} "
            "are left out; decompress those that are compressed.",
            logger="current",
            level=logging.WARNING,
        )
    return index


def kind_of(name: str) -> str:
    """Return the suffix of a file in lower case, such as ".heic"."""
    return os.path.splitext(name)[1].lower() or "without suffix"


def heic_remedy(kinds: Iterable[str]) -> str:
    """Return what to install if files that were left out are HEIC, or nothing.

    Args:
        kinds: Of those files, see ``kind_of``.
    """
    return READ_HEIC if _HEIC.intersection(kinds) else ""


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle
        return False
