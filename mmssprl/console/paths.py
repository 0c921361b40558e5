"""The one judge of the paths that users give, for every command and function."""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from .. import errors
from .dropped import answer

PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps")
_URL = re.compile(r"([A-Za-z][\w+.-]+:)//?")  # pathlib makes one slash of two


def check_path(
    path: str | Path,
    name: str,
    *,
    file: str = "",
    folder: str = "",
    suffixes: Sequence[str] = (),
    writes: bool = False,
) -> Path:
    """Return a path that can be what a user gives it for; nothing is made or opened.

    Args:
        path: As the user gave it.
        name: What the user calls it, such as ``images (--images)``.
        file: What it is as a file, such as "a tar file"; empty if it must be a folder.
        folder: What it is as a folder; empty if it must be a file.
        suffixes: How a file ends, in upper or lower case; empty takes any.
        writes: It is written, and need not exist.

    Raises:
        FileExistsError: A file is in the place of a folder to write, or the reverse.
        FileNotFoundError: There is nothing to read.
        PermissionError: It may not be read.
        ValueError: It is empty, a URL, of another suffix, or of another kind than is read.
    """
    text, found = os.fspath(path), _kind(path)
    kind: type[errors.UserError] = errors.UserValueError
    remedy, told = "give another path", None
    is_other = suffixes and not text.lower().endswith(tuple(suffixes))
    if text in ("", "-"):
        reason = f"got {text or 'an empty path'}"
    elif not found and _URL.match(text):
        reason = _URL.sub(r"\1//", text, count=1) + " is a URL"
        remedy = remedy if writes else "download it first"
    elif not found and text.startswith("~"):
        reason, remedy = f"got {text}", f"write it out, {os.path.expanduser(text)}"
    elif is_other and (found == "a file" or (writes and not found)):
        ends = re.sub("(.*), ", r"\1 or ", ", ".join(suffixes))
        reason, remedy = f"{text} does not end in {ends}", "rename it" if writes else remedy
    elif not found and not writes:
        kind, told = errors.UserFileNotFoundError, answer(f"{name} {os.path.basename(text)}")
        reason, remedy = f"there is no {text}", "correct the path"
    elif found and not {"a file": file, "a folder": folder}.get(found):
        kind = errors.UserFileExistsError if writes else kind
        reason, remedy = f"{text} is {found}", remedy if file or writes else "give its folder"
    elif not writes and not os.access(text, os.R_OK):
        kind, reason, remedy = errors.UserPermissionError, f"you may not read {text}", "allow it"
    else:
        return Path(path)
    needed = ", or ".join(filter(None, (folder, file)))
    raise kind(told or f"{name} must be {needed}, but {reason}; {remedy}.")


def _kind(path: str | Path) -> str:
    """Return "a file", "a folder" or what else is there; "" if there is nothing."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "a link to nothing" if os.path.islink(path) else ""
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")
