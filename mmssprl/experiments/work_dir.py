"""The folder of an experiment: taken once, and gone on with by those that fit it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UserFileExistsError, UserValueError
from ..system.one_run import is_unused
from ..system.outputs import write_whole


def check_own(work_dir: Path, marker: str, what: str) -> bool:
    """Return whether a folder is that of an experiment already; a new or empty one is not.

    Args:
        work_dir: Folder.
        marker: Name of the file in it by which the experiment knows its own.
        what: The experiment, as the message names it.

    Raises:
        FileExistsError: The folder holds something else; nothing in it is touched.
    """
    if is_unused(work_dir):
        return False
    if not (work_dir / marker).exists():
        raise UserFileExistsError(
            f"{what} needs a folder of its own, but {work_dir} holds other files; give another "
            "--work-dir."
        )
    return True


def read_marker(work_dir: Path, marker: str, what: str) -> dict[str, Any] | None:
    """Return the settings of the experiment in a folder, None for a new one; arguments as above.

    Raises:
        FileExistsError: As ``check_own``.
        ValueError: The marker is damaged.
    """
    if not check_own(work_dir, marker, what):
        return None
    path = work_dir / marker
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise UserValueError(
            f"{path} must be JSON, but is damaged ({error}); write it as in another work "
            "dir of the same settings, or give another --work-dir."
        ) from None


def check_same(work_dir: Path, before: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that are not those which the runs of a folder have been made with.

    Raises:
        ValueError: Names the first one that differs.
    """
    for key in {**before, **settings}:
        if before.get(key) != settings.get(key):
            raise UserValueError(
                f"all runs of a work dir must have the same {key}, but {work_dir} was begun with "
                f"{before.get(key)} and got {settings.get(key)}; give the former, or another "
                "--work-dir."
            )


def write_marker(work_dir: Path, marker: str, settings: Mapping[str, Any]) -> None:
    """Make a folder the experiment's own."""
    work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(work_dir / marker, json.dumps(settings, indent=2) + "\n")
