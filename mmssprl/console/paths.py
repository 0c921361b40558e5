"""The check of every path that a user gives to a command or function."""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .. import errors
from .dropped import answer

IMAGE_FOLDER = "a folder of images or of tar files"
"""Name of a folder of images in messages."""
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps")
DATA_FILES = (".json", ".yaml", ".yml")
"""Suffixes of the files that may be given in place of their folder of labelled images."""
_URL = re.compile(r"([A-Za-z][\w+.-]+:)//?")  # pathlib turns two slashes into one
_Error = type[errors.UserError]


def check_path(
    path: str | Path,
    name: str,
    *,
    file: str = "",
    folder: str = "",
    suffixes: Sequence[str] = (),
    writes: bool = False,
) -> Path:
    """Return the path if it has a suitable kind and suffix; nothing is created or opened.

    ``name`` is the argument. ``file`` and ``folder`` say what it may be, such as "a tar file";
    without one of them it must be the other. ``suffixes`` allow upper and lower case; none allows
    any. An output (``writes``) need not exist.

    Raises:
        FileExistsError: An output folder is a file, or the reverse.
        FileNotFoundError: An input does not exist.
        PermissionError: An input is not readable.
        ValueError: It is empty, a URL, or has another suffix or kind.
    """
    text = os.fspath(path)
    found = _kind(path)

    def refuse(reason: str, remedy: str = "", kind: _Error = errors.UserValueError) -> NoReturn:
        needed = ", or ".join(filter(None, (folder, file)))
        remedy = remedy or "give another path"
        raise kind(f"{name} must be {needed}, but {reason}; {remedy}.")

    if text in ("", "-"):
        refuse(f"got {text or 'an empty path'}")
    if not found and _URL.match(text):
        url = _URL.sub(r"\1//", text, count=1)
        refuse(f"{url} is a URL", "" if writes else "download it first")
    if not found and text.startswith("~"):
        refuse(f"got {text}", f"write it out, {os.path.expanduser(text)}")

    is_file = found == "a file" or (writes and not found)
    if is_file and suffixes and not text.lower().endswith(tuple(suffixes)):
        ends = re.sub("(.*), ", r"\1 or ", ", ".join(suffixes))
        refuse(f"{text} does not end in {ends}", "rename it" if writes else "")

    if not found and not writes:
        word = os.path.basename(text) if text.endswith(".py") else text
        known = answer(f"{name} {word}")
        if known:
            raise errors.UserFileNotFoundError(known)
        refuse(f"there is no {text}", "correct the path", errors.UserFileNotFoundError)
    if found and not {"a file": file, "a folder": folder}.get(found):
        kind = errors.UserFileExistsError if writes else errors.UserValueError
        refuse(f"{text} is {found}", "" if file or writes else "give its folder", kind)
    if not writes and not os.access(text, os.R_OK):
        refuse(f"you may not read {text}", "allow it", errors.UserPermissionError)
    return Path(path)


def check_image_source(source: str | Path, name: str = "images") -> Path:
    """Check the path of the images of a training."""
    return check_path(source, name, file="a tar file", folder=IMAGE_FOLDER)


def check_images(source: str | Path, name: str = "images") -> Path:
    """Check the path of images to look at, which may be one image."""
    return check_path(source, name, file="a tar file or an image", folder=IMAGE_FOLDER)


def check_run(run: str | Path, name: str = "run") -> Path:
    """Check the folder of a run."""
    return check_path(run, name, folder="the folder of a run")


def check_checkpoint(checkpoint: str | Path, name: str = "checkpoint") -> Path:
    """Check a checkpoint, or the folder of a run."""
    return check_path(checkpoint, name, file="a checkpoint", folder="the folder of a run")


def check_checkpoint_or_url(checkpoint: str, name: str = "checkpoint") -> None:
    """Check a checkpoint, or the folder of a run; a URL is downloaded later."""
    if "://" not in checkpoint:
        check_checkpoint(checkpoint, name)


def check_embeddings(embeddings: str | Path, name: str = "embeddings") -> Path:
    """Check the path of what `embed` wrote."""
    return check_path(embeddings, name, file="a file that `embed` wrote", suffixes=[".npz"])


def check_image(image: str | Path, name: str = "image") -> Path:
    """Check the path of one image."""
    return check_path(image, name, file="an image file")


def check_data(data: str | Path, name: str = "data") -> Path:
    """Check the path of labelled images."""
    folder = "a folder of labelled images"
    return check_path(
        data, name, file="its data.yaml or COCO .json", folder=folder, suffixes=DATA_FILES
    )


def _kind(path: str | Path) -> str:
    """Return "a file", "a folder" or another kind; "" if nothing exists."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "a link to nothing" if os.path.islink(path) else ""
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")
