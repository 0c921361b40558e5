"""The check of every path that a user gives to a command or function."""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from .. import errors
from .dropped import answer

PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps")
_URL = re.compile(r"([A-Za-z][\w+.-]+:)//?")  # pathlib turns two slashes into one


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
    text, found = os.fspath(path), _kind(path)
    kind: type[errors.UserError] = errors.UserValueError
    remedy, known = "give another path", None
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
        kind, known = errors.UserFileNotFoundError, answer(f"{name} {os.path.basename(text)}")
        reason, remedy = f"there is no {text}", "correct the path"
    elif found and not {"a file": file, "a folder": folder}.get(found):
        kind = errors.UserFileExistsError if writes else kind
        reason, remedy = f"{text} is {found}", remedy if file or writes else "give its folder"
    elif not writes and not os.access(text, os.R_OK):
        kind, reason, remedy = errors.UserPermissionError, f"you may not read {text}", "allow it"
    else:
        return Path(path)
    needed = ", or ".join(filter(None, (folder, file)))
    raise kind(known or f"{name} must be {needed}, but {reason}; {remedy}.")


def _kind(path: str | Path) -> str:
    """Return "a file", "a folder" or another kind; "" if nothing exists."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return "a link to nothing" if os.path.islink(path) else ""
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")
