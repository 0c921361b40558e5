"""Find the images and the tar files below a folder."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mmengine.logging import print_log

from ..console.wording import counted
from ..errors import UserValueError
from .image_reading import FORMATS

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".ppm", ".pgm", *([".avif"] if "AVIF" in FORMATS else [])),
)
"""Suffixes of image files, in lower case."""

UNREAD_SUFFIXES = (
    *(".heic", ".heif", ".jp2", ".jxl", ".psd", ".tga", ".exr", ".dcm"),
    *(".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"),
)
"""Suffixes of images in other formats, in lower case."""

TAR_SUFFIX = ".tar"

_SYSTEM_FOLDERS = frozenset(
    ("@eadir", "#recycle", "@recycle", "$recycle.bin", "system volume information", "__macosx")
    + ("lost+found",)
)
"""Folders where drives and systems keep thumbnails, deleted or recovered files, in lower case."""


class ImageIndex(NamedTuple):
    """Images and tar files below a folder: sorted paths relative to it."""

    names: list[str]
    tars: list[str]
    skipped: Counter[str]
    """Number of other files by ``kind_of``, without hidden ones, see ``without_raw``."""


def is_hidden(name: str) -> bool:
    """Whether people do not see a file or folder of this name."""
    return name.startswith(".") or name.lower() in _SYSTEM_FOLDERS


def walk(
    folder: str, on_error: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield ``folder`` and the folders below it, as "" or "a/b/", with the names of their files.

    Symbolic links are followed, each folder is visited once, and hidden files and folders are
    skipped, see ``is_hidden``. ``on_error`` receives the errors of folders that cannot be listed.
    """
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, onerror=on_error, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:  # a link to a parent folder would never end
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not is_hidden(name))

        below = here.removeprefix(folder).strip("/")
        yield below and f"{below}/", [name for name in files if not is_hidden(name)]


def search_images(folder: str, suffixes: tuple[str, ...] = IMAGE_SUFFIXES) -> ImageIndex:
    """Find the images or the tar files below a folder; ValueError for both or none."""
    found: list[str] = []
    tars: list[str] = []
    unlisted: list[OSError] = []
    skipped: Counter[str] = Counter()
    for below, names in walk(folder, unlisted.append):
        images = []
        others = []
        for name in names:
            if name.lower().endswith(suffixes):
                images.append(below + name)
            elif name.lower().endswith(TAR_SUFFIX):
                tars.append(below + name)
            else:
                others.append(below + name)
        skipped.update(map(kind_of, without_raw(others, images)))
        found += sorted(images)  # makes the sort of all images fast

    if unlisted:
        which = f"{counted(len(unlisted), 'folder')} below {folder}"
        first = [str(error) for error in unlisted[:3]]
        text = f"{which} cannot be listed; their images are left out: {first}"
        print_log(text, logger="current", level=logging.WARNING)

    if bool(found) == bool(tars):
        wanted = f"images ({', '.join(suffixes)}) or uncompressed tar files ({TAR_SUFFIX})"
        got = f"none among {counted(skipped.total(), 'file')}; correct the path, or unpack archives"
        if tars:
            got = f"{counted(len(found), 'image')} and {min(tars)}; move one kind away"
        raise UserValueError(
            f"data_root/data_prefix: {folder!r} must hold {wanted}, but holds {got}."
        )
    return ImageIndex(sorted(found), sorted(tars), skipped)


def without_raw(others: Sequence[str], images: Iterable[str]) -> list[str]:
    """Return the other files without those of ``UNREAD_SUFFIXES`` that have an image.

    A camera may write IMG_1.CR2 next to IMG_1.JPG: nothing is left out.
    """
    unread = [name for name in others if name.lower().endswith(UNREAD_SUFFIXES)]
    stems = {os.path.splitext(name)[0] for name in images} if unread else set()
    raw = {name for name in unread if os.path.splitext(name)[0] in stems}
    return [name for name in others if name not in raw]


def kind_of(name: str) -> str:
    """Return the suffix of a file in lower case, such as ".heic"."""
    return os.path.splitext(name)[1].lower() or "without suffix"


def unread_line(skipped: Mapping[str, int]) -> str:
    """Return a line about images in ``UNREAD_SUFFIXES``, or "", given other files by kind."""
    unread = {kind: num for kind, num in skipped.items() if kind in UNREAD_SUFFIXES}
    if not unread:
        return ""
    return (
        f"left out: {counted(sum(unread.values()), 'image')} of formats that are not read "
        f"({', '.join(sorted(unread))}); convert to JPEG or PNG."
    )
