"""The folder of a benchmark: taken once, gone on with or emptied only when told."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import UserFileExistsError, UserValueError
from ..work_dir import check_same, read_marker, write_marker

MARKER = "benchmark.json"
_CHANGED = {
    "weights": "{} is another file or has another backbone now; rename it",
    "configs": "the config of {} has changed; give another --work-dir",
}

Digests = Mapping[str, Mapping[str, str]]
"""SHA-256 by name of the rows (``weights``) and of the protocols (``configs``)."""


def claim(
    work_dir: Path,
    settings: Mapping[str, Any],
    digests: Digests,
    starts: Iterable[str],
    *,
    resume: bool,
    overwrite: bool,
    writes: bool = True,
) -> None:
    """Take an unused folder, or the one of this benchmark if that is wanted.

    With ``overwrite`` nothing changes yet: ``start_anew`` follows when the plan is made.

    Args:
        work_dir: Folder; what belongs to it is kept in its ``benchmark.json``.
        settings: What must not change between calls, as JSON holds it.
        digests: What each row and each protocol is; new ones may be added by later calls.
        starts: Where each row starts.
        resume: Keep the runs in the folder.
        overwrite: The runs in the folder are going to be deleted.
        writes: If not, it is only told what does not fit.

    Raises:
        FileExistsError: The folder holds something else, or runs of a benchmark and neither of
            both is given.
        ValueError: ``resume`` with other settings, weights, backbones or configs than before, or
            ``overwrite`` of the weights themselves.
    """
    before = read_marker(work_dir, MARKER, "a benchmark")
    if before is not None and not before.keys() >= {*settings, *digests}:
        raise UserFileExistsError(
            f"{work_dir} holds a benchmark of another version of mmssprl, which this one cannot "
            "read; give another --work-dir."
        )
    if before and overwrite:
        for start in starts:
            if Path(start).resolve().is_relative_to((work_dir / "runs").resolve()):
                raise UserValueError(
                    f"--overwrite deletes the runs in {work_dir}, but {start} is of one of them; "
                    "copy it elsewhere, or give another --work-dir."
                )
        return  # nothing is lost until the new plan is found right
    # Planned at most otherwise: a call that ended with an error leaves its folder free.
    if before and (work_dir / "runs").exists():
        if not resume:
            raise UserFileExistsError(
                f"{work_dir} holds a benchmark; go on with it by --resume, delete its runs by "
                "--overwrite, or give another --work-dir."
            )
        check_same(work_dir, {key: before[key] for key in settings}, settings)
        digests = _merge(before, digests)
    if writes:
        write_marker(work_dir, MARKER, {**settings, **digests})


def start_anew(work_dir: Path, settings: Mapping[str, Any], digests: Digests) -> None:
    """Delete the runs in a folder that ``claim`` has let pass; the arguments are those of it."""
    shutil.rmtree(work_dir / "runs", ignore_errors=True)
    write_marker(work_dir, MARKER, {**settings, **digests})


def digest(content: Any, file: str = "") -> str:
    """Return the SHA-256 of what JSON makes of ``content``, and of a file if there is one."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    if Path(file).is_file():
        found.update(Path(file).read_bytes())
    return found.hexdigest()


def _merge(before: Mapping[str, Any], digests: Digests) -> Digests:
    """Return all digests, or raise ValueError where one is not what it was."""
    for kind, new in digests.items():
        for name, value in new.items():
            if before[kind].get(name, value) != value:
                raise UserValueError(
                    f"--resume needs the {kind} that the runs began with, but "
                    f"{_CHANGED[kind].format(name)}, or start anew by --overwrite."
                )
    known = {value: name for name, value in before["weights"].items()}
    for name, value in digests["weights"].items():
        if known.get(value, name) != name:
            raise UserValueError(
                f"--resume knows the weights {name} as {known[value]}, but files of one name are "
                "named by their folders, too; rename the other file."
            )
    return {kind: {**before[kind], **new} for kind, new in digests.items()}
