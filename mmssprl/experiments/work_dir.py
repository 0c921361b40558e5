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

    ``marker`` is the name of the file by which the experiment ``what`` knows its own. A folder that
    holds something else raises FileExistsError.
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
    """Return the settings of the experiment in a folder, None for a new one; see ``check_own``."""
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


def joined(
    work_dir: Path, before: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a folder was begun with and what is asked for now, which must agree.

    Where a value is a mapping, such as digests by name, later calls may add to it. Otherwise the
    first setting that differs raises ValueError.
    """
    found: dict[str, Any] = {}
    for key in {**before, **settings}:
        old, new = before.get(key), settings.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            changed = [name for name in old if new.get(name, old[name]) != old[name]]
            if changed:
                raise UserValueError(
                    f"all runs of a work dir must have the same {key}, but {changed[0]} is not "
                    f"what {work_dir} was begun with; undo that, give it another name, or give "
                    "another --work-dir."
                )
            found[key] = {**old, **new}
        elif old == new:
            found[key] = new
        else:
            raise UserValueError(
                f"all runs of a work dir must have the same {key}, but {work_dir} was begun with "
                f"{old} and got {new}; give the former, or another --work-dir."
            )
    return found


def write_marker(work_dir: Path, marker: str, settings: Mapping[str, Any]) -> None:
    """Make a folder the experiment's own."""
    work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(work_dir / marker, json.dumps(settings, indent=2) + "\n")
