"""Find the images below a folder, and remember a long list of them in the user's cache.

A list is taken from the cache only if every folder that was searched for it still has the same
inode and the same times of modification and change: adding, removing or renaming an entry sets
them.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Any

import numpy as np

from mmssprl.datasets.image_names import ImageNames

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
"""What a folder is searched for, in upper, lower or mixed case."""

_MIN_CACHED_IMAGES = 20_000
"""Fewer are found in about 0.1 s, for which no file is left behind."""

_SETTLED_NS = 2_000_000_000
"""A folder changed later than this before the search could change again within one tick of its
file system's clock (2 s on FAT) and look the same."""

_VERSION = 1


@dataclass
class ImageIndex:
    """What is below a folder.

    Args:
        names: Paths of the images relative to the folder, sorted.
        unlisted: Errors of the folders that could not be listed.
        num_others: Other files, hidden ones not counted. 0 if the names come from the cache.
    """

    names: ImageNames
    unlisted: list[str] = field(default_factory=list)
    num_others: int = 0


def index_images(folder: str) -> ImageIndex:
    """Find the images below a folder, in the cache or by searching it.

    Symbolic links are followed, a folder is searched once however many ways lead to it, and hidden
    files and folders are left out. Neither a cache that cannot be written nor a damaged one is an
    error: the folder is searched.

    Args:
        folder: An existing folder.
    """
    real_path = os.path.realpath(folder)
    cache = _cache_file(real_path)
    names = _load(cache, real_path) if cache else None
    if names is not None:
        return ImageIndex(names)
    start_ns = time_ns()
    index, states, may_change_unseen = _search(folder)
    newest_ns = max((max(state[1:]) for state in states.values()), default=start_ns)
    settled = newest_ns < start_ns - _SETTLED_NS
    if cache and settled and not may_change_unseen and len(index.names) >= _MIN_CACHED_IMAGES:
        _save(cache, real_path, index.names, states)
    return index


def _search(folder: str) -> tuple[ImageIndex, dict[str, list[int]], bool]:
    """List all folders.

    Returns:
        What was found; the state of each folder by its path relative to ``folder``; and whether
        images could appear without a change of these states.
    """
    found: list[str] = []
    unlisted: list[str] = []
    states: dict[str, list[int]] = {}
    seen: set[tuple[int, int]] = set()
    num_others = 0
    may_change_unseen = False
    left = [""]
    while left:
        below = left.pop()
        path, prefix = (f"{folder}/{below}", f"{below}/") if below else (folder, "")
        images, folders = [], []
        try:
            status = os.stat(path)  # before the listing, so that a change in between shows
            if (status.st_dev, status.st_ino) in seen:  # a link back up would never end
                states[below] = _state(status)
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
                    else:
                        num_others += 1
                        # A link to nothing, for example to a drive that is not mounted now.
                        may_change_unseen |= entry.is_symlink() and not os.path.exists(entry.path)
        except OSError as error:
            unlisted.append(str(error))
            continue
        seen.add((status.st_dev, status.st_ino))
        states[below] = _state(status)
        found += sorted(images)  # the sort of all is then little more than a merge
        left += sorted(folders, reverse=True)
    found.sort()
    index = ImageIndex(ImageNames.of(found), unlisted, num_others)
    return index, states, may_change_unseen or bool(unlisted)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle
        return False


def _state(status: os.stat_result) -> list[int]:
    # The change time too: rsync and tar set the modification time of a folder back.
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _cache_file(real_path: str) -> Path | None:
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):  # to be ignored then, says the XDG specification
        try:
            root = str(Path.home() / ".cache")
        except RuntimeError:  # an account without a home
            return None
    digest = hashlib.sha256(os.fsencode(real_path)).hexdigest()
    return Path(root) / "mmssprl" / "index" / f"{digest[:32]}.npz"


def _header(real_path: str) -> dict[str, Any]:
    return {"version": _VERSION, "suffixes": list(IMAGE_SUFFIXES), "folder": real_path}


def _load(cache: Path, real_path: str) -> ImageNames | None:
    """Return the cached names, or None if there are none or a folder has changed."""
    try:
        with cache.open("rb") as opened:
            file = np.load(opened)  # the archive's checksums show damage
            header = json.loads(file["header"].tobytes())
            states = header.pop("states")
            if header != _header(real_path) or not all(_unchanged(real_path, states)):
                return None
            return ImageNames(file["blob"], file["ends"])
    except Exception:  # numpy and zipfile raise ten kinds of errors on a file that is not theirs
        return None


def _unchanged(real_path: str, states: dict[str, list[int]]) -> Iterator[bool]:
    return (
        _state(os.stat(os.path.join(real_path, below))) == state for below, state in states.items()
    )


def _save(cache: Path, real_path: str, names: ImageNames, states: dict[str, list[int]]) -> None:
    header = json.dumps({**_header(real_path), "states": states}).encode()
    part = None
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own: all ranks of a machine may write at once.
        with tempfile.NamedTemporaryFile(dir=cache.parent, suffix=".part", delete=False) as file:
            part = file.name
            np.savez(file, header=np.frombuffer(header, np.uint8), blob=names.blob, ends=names.ends)
        os.replace(part, cache)
    except OSError:
        if part:
            Path(part).unlink(missing_ok=True)
