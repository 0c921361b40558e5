"""What a work dir holds: another run, to refuse or delete, or one to resume, and from where.

Whatever has happened to its files, a run resumes from the newest of its checkpoints that is whole.
"""

import logging
import math
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mmengine.config import Config
from mmengine.logging import print_log

from ..console.paths import check_path
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..models import is_pretraining
from ..weights import read_checkpoint
from ..weights.checkpoint_file import reason_of

POINTER = "last_checkpoint"
"""File of a work dir that names the newest checkpoint."""
_NO_TRAINING = re.compile(r"best_.+|.+_backbone")
"""Files of weights next to the checkpoints."""

# What mmengine's CheckpointHook and PretrainCheckpointHook write; exports have other names.
_RUN_FILES = re.compile(r"((epoch|iter|step)_\d+|best_.+|.+_backbone)\.pth|last_checkpoint")


def check_work_dir(cfg: Config, *, overwrite: bool) -> None:
    """Refuse to write over another run, or to delete what the new one starts from.

    Every rank does so before it meets the others, so that none of them can have saved anything.

    With ``overwrite`` the checkpoints of another run are going to be deleted.
    """
    work_dir = Path(cfg.work_dir)
    pointer = work_dir / POINTER
    found = sorted(work_dir.glob("*.pth"))
    if pointer.exists() and not found:
        found = [pointer]
    if found and not overwrite:
        raise UserFileExistsError(
            f"work_dir must not hold another run, but {work_dir} has {found[-1].name}; "
            "resume it, delete its checkpoints by overwrite, or give another work_dir."
        )
    doomed = {path.resolve() for path in files_of_run(cfg)}
    for key in ("weights", "load_from"):
        if cfg.get(key) and Path(cfg[key]).resolve() in doomed:
            raise UserValueError(
                f"overwrite deletes the checkpoints in {work_dir}, but {key}={cfg[key]!r} is one "
                "of them; copy it elsewhere, or give another work_dir."
            )


def files_of_run(cfg: Config) -> list[Path]:
    """Return the checkpoints that a training of this config has written, and their pointer."""
    return [path for path in Path(cfg.work_dir).glob("*") if _RUN_FILES.fullmatch(path.name)]


def finished_weights(cfg: Config) -> Path | None:
    """Return the weights of a run that is to be resumed and is complete, None if it is not.

    Those of a pre-training are the backbone's, of another training its last checkpoint.
    """
    checkpoint = cfg.get("load_from")
    if not cfg.get("resume") or not checkpoint or "://" in checkpoint:
        return None
    meta = read_checkpoint(checkpoint, mmap=True)["meta"]
    length = cfg.train_cfg
    is_done = any(
        unit in length and meta[counter] >= length[unit]
        for unit, counter in (("max_epochs", "epoch"), ("max_iters", "iter"))
    )
    if not is_done:
        return None
    weights = Path(checkpoint)
    if is_pretraining(cfg):
        weights = Path(cfg.work_dir) / f"{Path(cfg.filename).stem}_backbone.pth"
    return weights if weights.is_file() else None


def finished_line(cfg: Config, weights: Path) -> str:
    """Say that a run is complete, and where its weights are."""
    return f"the run in {cfg.work_dir} is finished, nothing is left to do; its weights: {weights}"


def newest_intact(work_dir: str | Path) -> Path | None:
    """Return the newest checkpoint of a run that can be resumed, every byte of it checked.

    The one that ``last_checkpoint`` names comes first, then the others, those with most steps
    first. Each skipped file is a line of the log. A run with neither a checkpoint nor a pointer was
    stopped before the first; the answer is None.

    Raises:
        FileNotFoundError: There are checkpoints, and none of them is whole.
    """
    folder, faults = Path(work_dir), []
    for path in _in_order(_named(folder), folder):
        fault = _fault(path)
        if not fault:
            return path
        faults.append(f"{path}: {fault}")
        text = f"{path} is skipped as a checkpoint: {fault}."
        print_log(text, logger="current", level=logging.WARNING)
    if not faults:
        return None
    raise UserFileNotFoundError(
        f"the folder of a run must hold a whole checkpoint, but {work_dir} holds none "
        f"({'; '.join(faults)}); give another by its name, or start a new run in another work dir."
    )


def require_newest(work_dir: str | Path) -> Path:
    """As ``newest_intact``, but a run without a checkpoint is a FileNotFoundError, too."""
    found = newest_intact(work_dir)
    if found is None:
        raise UserFileNotFoundError(
            f"the folder of a run must hold a checkpoint, but {work_dir} holds none; train first, "
            "or give the .pth file."
        )
    return found


def existing_checkpoint(path: str | Path, name: str) -> Path:
    """Return a checkpoint that a user gives, itself or by the folder of its run."""
    path = check_path(path, name, file="a checkpoint", folder="the folder of a run")
    return require_newest(path) if path.is_dir() else path


def _named(folder: Path) -> Path | None:
    """Return the file that the pointer names, which need not be there."""
    try:
        text = os.fsdecode((folder / POINTER).read_bytes().strip(b"\0 \t\r\n"))
    except FileNotFoundError:
        return None
    # The name counts: the whole path is written, and a folder may have been moved or copied.
    return folder / (Path(text).name or POINTER)


def _in_order(named: Path | None, folder: Path) -> Iterator[Path]:
    """Yield the file that the pointer names, and only then look at the others."""
    if named is not None:
        yield named
    files = {*folder.glob("*.pth")} - {named}
    steps = {path: _num_steps(path) for path in files if not _NO_TRAINING.fullmatch(path.stem)}
    found = {path: number for path, number in steps.items() if number is not None}
    yield from sorted(found, key=lambda path: (found[path], path.name), reverse=True)


def _num_steps(path: Path) -> float | None:
    """Return the steps of a checkpoint, infinity for what cannot be read, None for bare weights."""
    try:
        content = read_checkpoint(path, mmap=True)
        return float(content["meta"]["iter"]) if "meta" in content else None
    except Exception:  # damaged files raise almost any class; ``_fault`` tells of them
        return math.inf


def _fault(path: Path) -> str:
    """Check all bytes of a file, and say what is wrong with it, '' if nothing."""
    if not os.path.isfile(path):  # pathlib raises if the name is too long
        return "there is no such file"
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
            if damaged:
                return f"the checksum of its part {damaged} is wrong"
        content = read_checkpoint(path, mmap=True)
        missing = {"meta", "state_dict"} - content.keys()
        missing = missing or {"iter", "epoch"} - content["meta"].keys()
    except Exception as error:  # damaged files raise almost any class
        return f"it cannot be read ({reason_of(error.__cause__ or error)})"
    return f"it lacks {', '.join(sorted(missing))}" if missing else ""
