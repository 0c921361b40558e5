"""The folder of a benchmark: taken once, gone on with or emptied only when told."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import UserFileExistsError, UserValueError
from ...system.one_run import is_unused
from ...system.outputs import write_whole

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
    marker = work_dir / MARKER
    if not is_unused(work_dir):
        before = json.loads(marker.read_text()) if marker.exists() else {}
        if not before.keys() >= {*settings, *digests}:
            raise UserFileExistsError(
                f"the work dir must be new or that of a benchmark, but {work_dir} holds other "
                "files, or a benchmark of another version of mmssprl; give another --work-dir."
            )
        if overwrite:
            for start in starts:
                if Path(start).resolve().is_relative_to((work_dir / "runs").resolve()):
                    raise UserValueError(
                        f"--overwrite deletes the runs in {work_dir}, but {start} is of one of "
                        "them; copy it elsewhere, or give another --work-dir."
                    )
            return  # nothing is lost until the new plan is found right
        if (work_dir / "runs").exists():
            if not resume:
                raise UserFileExistsError(
                    f"{work_dir} holds a benchmark; go on with it by --resume, delete its runs by "
                    "--overwrite, or give another --work-dir."
                )
            digests = _merge(before, settings, digests, work_dir)
        # Planned at most otherwise: a call that ended with an error leaves its folder free.
    if writes:
        _write(work_dir, settings, digests)


def start_anew(work_dir: Path, settings: Mapping[str, Any], digests: Digests) -> None:
    """Delete the runs in a folder that ``claim`` has let pass; the arguments are those of it."""
    shutil.rmtree(work_dir / "runs", ignore_errors=True)
    _write(work_dir, settings, digests)


def digest(content: Any, file: str = "") -> str:
    """Return the SHA-256 of what JSON makes of ``content``, and of a file if there is one."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    if Path(file).is_file():
        found.update(Path(file).read_bytes())
    return found.hexdigest()


def _write(work_dir: Path, settings: Mapping[str, Any], digests: Digests) -> None:
    work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(work_dir / MARKER, json.dumps({**settings, **digests}, indent=2) + "\n")


def _merge(
    before: dict[str, Any], settings: Mapping[str, Any], digests: Digests, work_dir: Path
) -> Digests:
    for key, value in settings.items():
        if before[key] != value:
            raise UserValueError(
                f"--resume needs the {key} of the runs in {work_dir}, {before[key]}, but got "
                f"{value}; give another --work-dir."
            )
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
