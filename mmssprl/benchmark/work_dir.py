"""The folder of a benchmark: taken once, gone on with or emptied only when told."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARKER = "benchmark.json"
_DIGEST_BYTES = 1 << 20


def claim(
    work_dir: Path,
    settings: Mapping[str, Any],
    weights: Mapping[str, str],
    *,
    resume: bool,
    overwrite: bool,
) -> None:
    """Take an unused folder, or the one of this benchmark if that is wanted.

    With ``overwrite`` nothing changes yet: ``start_anew`` follows when the plan is made.

    Args:
        work_dir: Folder; what belongs to it is kept in its ``benchmark.json``.
        settings: What must not change between calls, as JSON holds it.
        weights: Where each row of the table starts; files are told apart by their SHA-256. Rows
            may be added by later calls.
        resume: Keep the runs in the folder.
        overwrite: The runs in the folder are going to be deleted.

    Raises:
        FileExistsError: The folder holds something else, or runs of a benchmark and neither of
            both is given.
        ValueError: ``resume`` with other settings or another file of the same name, or
            ``overwrite`` of the weights themselves.
    """
    marker = work_dir / MARKER
    digests = {name: _digest(start) for name, start in weights.items()}
    if work_dir.exists() and any(work_dir.iterdir()):
        before = json.loads(marker.read_text()) if marker.exists() else {}
        if not before.keys() >= {*settings, "weights"}:
            raise FileExistsError(
                f"the work dir must be new or that of a benchmark, but {work_dir} holds other "
                "files; give another --work-dir."
            )
        if overwrite:
            for start in weights.values():
                if Path(start).resolve().is_relative_to((work_dir / "runs").resolve()):
                    raise ValueError(
                        f"--overwrite deletes the runs in {work_dir}, but {start} is of one of "
                        "them; copy it elsewhere, or give another --work-dir."
                    )
            return  # nothing is lost until the new plan is found right
        if not (work_dir / "runs").exists():
            pass  # planned at most: a call that ended with an error leaves its folder free
        elif resume:
            digests = _merge(before, settings, digests, work_dir)
        else:
            raise FileExistsError(
                f"{work_dir} holds a benchmark; go on with it by --resume, delete its runs by "
                "--overwrite, or give another --work-dir."
            )
    _write(work_dir, settings, digests)


def start_anew(work_dir: Path, settings: Mapping[str, Any], weights: Mapping[str, str]) -> None:
    """Delete the runs in a folder that ``claim`` has let pass; the arguments are those of it."""
    shutil.rmtree(work_dir / "runs", ignore_errors=True)
    _write(work_dir, settings, {name: _digest(start) for name, start in weights.items()})


def _write(work_dir: Path, settings: Mapping[str, Any], digests: Mapping[str, str | None]) -> None:
    work_dir.mkdir(parents=True, exist_ok=True)
    content = json.dumps({**settings, "weights": digests}, indent=2)
    (work_dir / MARKER).write_text(content + "\n")


def _merge(
    before: dict[str, Any],
    settings: Mapping[str, Any],
    digests: dict[str, str | None],
    work_dir: Path,
) -> dict[str, str | None]:
    for key, value in settings.items():
        if before[key] != value:
            raise ValueError(
                f"--resume needs the {key} of the runs in {work_dir}, {before[key]}, but got "
                f"{value}; give another --work-dir."
            )
    known: dict[str, str | None] = before["weights"]
    for name, digest in digests.items():
        if known.setdefault(name, digest) != digest:
            raise ValueError(
                f"--resume needs the weights that the runs began with, but {name} is another "
                "file now; rename it, or start anew by --overwrite."
            )
    return known


def _digest(start: str) -> str | None:
    if not Path(start).is_file():
        return None
    digest = hashlib.sha256()
    with open(start, "rb") as file:
        while block := file.read(_DIGEST_BYTES):
            digest.update(block)
    return digest.hexdigest()
