"""Work dirs: claim one, refuse a used one, and read the config of its run."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..console.options import given_options
from ..errors import UserFileExistsError, UserValueError
from ..system.locks import is_unused
from ..system.outputs import check_folder, write_whole

DEFAULT_PARENT = Path("work_dirs")
"""Parent of the default work dirs."""
_DIGEST = re.compile("[0-9a-f]{16,}")


def claim(work_dir: Path, marker: str, what: str, settings: Mapping[str, Any]) -> None:
    """Write the settings of the experiment ``what`` to ``marker`` in an unused work dir.

    Where runs are, the settings must be the same.

    Raises:
        FileExistsError: The folder holds other files.
        ValueError: Its runs have other settings, or ``marker`` is damaged.
    """
    path = work_dir / marker
    if not (is_unused(work_dir) or path.exists()):
        raise UserFileExistsError(
            f"{what} needs its own folder, but {work_dir} holds other files; give another "
            "--work-dir."
        )
    if any(any(work_dir.glob(pattern)) for pattern in ("runs/*", "tuning/*")):
        try:
            before = json.loads(path.read_text())
        except ValueError as error:
            raise UserValueError(
                f"{path} is damaged ({error}); copy it from a work dir with the same settings, "
                "or give another --work-dir."
            ) from None
        # Work dirs of earlier versions have fewer digests.
        before = {k: {} for k, value in settings.items() if isinstance(value, dict)} | before
        keys = {**before, **settings}
        settings = {k: _joined(work_dir, k, before.get(k), settings.get(k)) for k in keys}
    work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(settings, indent=2) + "\n")


def _joined(work_dir: Path, key: str, old: Any, new: Any) -> Any:
    """Merge an old and a new setting, which must agree; a dict of digests may grow."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {
            name: _joined(work_dir, f"{key}.{name}", old.get(name, value), value)
            for name, value in new.items()
        }
    if old == new:
        return new
    rule = f"all runs of a work dir must have the same {key}, but"
    if _DIGEST.fullmatch(str(old)):
        raise UserValueError(
            f"{rule} it has changed since {work_dir} was started; restore it, or give another "
            "--work-dir."
        )
    raise UserValueError(
        f"{rule} {work_dir} was started with {old} and got {new}; give the former, or another "
        "--work-dir."
    )


def digest(content: Any, file: str = "") -> str:
    """Return the SHA-256 of ``content`` as JSON, and of ``file`` if it exists."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    if Path(file).is_file():
        found.update(Path(file).read_bytes())
    return found.hexdigest()


def refuse_used(work_dir: Path) -> None:
    """Raise FileExistsError if a work dir is a file or not empty."""
    check_folder(work_dir)
    if not is_unused(work_dir):
        raise UserFileExistsError(
            f"work_dir must be new or empty, but {work_dir} holds files; resume its run "
            "(resume), or give another work_dir."
        )


def refuse_given(asked: Any, config: Path) -> None:
    """Raise ValueError if options are given for a resumed run, which has its own config."""
    names = ", ".join(given_options(asked))
    if names:
        raise UserValueError(
            f"a resumed run takes all options from {config}; leave {names} out, or start a new run."
        )


def refuse_other(what: str, own: str, given: str) -> None:
    """Raise ValueError if a run is resumed with other images, data or weights."""
    if own not in (given, str(Path(given).resolve())):
        raise UserValueError(
            f"a run must be resumed with its own {what}, {own}, but got {given}; give that, or "
            "start a new run with another work_dir."
        )
