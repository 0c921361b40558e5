"""The folder of an experiment: taken once, and resumed by those that fit it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UserFileExistsError, UserValueError
from ..system.one_run import is_unused
from ..system.outputs import write_whole


def claim(work_dir: Path, marker: str, what: str, settings: Mapping[str, Any]) -> None:
    """Take an unused folder, or resume in one of the same settings.

    ``marker`` is the name of the file by which the experiment ``what`` knows its own; a folder that
    holds something else raises FileExistsError. One without runs takes other settings: a call that
    was refused must not stand in the way of the one that corrects it.
    """
    path = work_dir / marker
    if not (is_unused(work_dir) or path.exists()):
        raise UserFileExistsError(
            f"{what} needs a folder of its own, but {work_dir} holds other files; give another "
            "--work-dir."
        )
    if any(any(work_dir.glob(pattern)) for pattern in ("runs/*", "tuning/*")):
        try:
            before = json.loads(path.read_text())
        except ValueError as error:
            raise UserValueError(
                f"{path} is damaged ({error}); write it as in another work dir of the same "
                "settings, or give another --work-dir."
            ) from None
        settings = {
            key: _joined(work_dir, key, before.get(key), settings.get(key))
            for key in {**before, **settings}
        }
    work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(settings, indent=2) + "\n")


def _joined(work_dir: Path, key: str, old: Any, new: Any) -> Any:
    """Return an old and a new setting, which must agree; digests by name may be added to."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {
            name: _joined(work_dir, f"{key}.{name}", old.get(name, value), value)
            for name, value in new.items()
        }
    if old != new:
        raise UserValueError(
            f"all runs of a work dir must have the same {key}, but {work_dir} was begun with {old} "
            f"and got {new}; give the former, or another --work-dir."
        )
    return new
