"""The checkpoints in a work dir: refuse another run, and find the newest intact one."""

import logging
import math
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mmengine.config import Config
from mmengine.logging import MMLogger, print_log

from ..console.paths import check_checkpoint
from ..console.quiet import keep_off_console
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..models import is_pretraining
from ..system.record_file import RECORD_FILE, has_ended
from ..weights import RANDOM, Source, read_checkpoint, whole_path
from ..weights.checkpoint_file import reason_of

POINTER = "last_checkpoint"
"""File in a work dir with the path of the newest checkpoint."""
_NO_TRAINING = re.compile(r"best_.+|.+_backbone")
"""Files next to the checkpoints that hold weights only."""
# Written by CheckpointHook and PretrainCheckpointHook; exports have other names.
_RUN_FILES = re.compile(r"((epoch|iter|step)_\d+|best_.+|.+_backbone)\.pth|last_checkpoint")
_SAID_OF_RUN = re.compile(
    r"probe\.csv|probe_start\.pt|scores\.(csv|json)|predictions\.png|report\.html|recipe\.json"
)
"""Files that the training, its end and `report` write of a run."""


def check_work_dir(cfg: Config, *, overwrite: bool) -> None:
    """Refuse another run unless ``overwrite``, and to delete the weights to start from."""
    work_dir = Path(cfg.work_dir)
    found = sorted(work_dir.glob("*.pth")) or [*work_dir.glob(POINTER)]
    if found and not overwrite:
        raise UserFileExistsError(
            f"work_dir must not hold another run, but {work_dir} has {found[-1].name}; resume "
            "that run, delete its checkpoints by overwrite, or give another work_dir."
        )

    doomed = {path.resolve() for path in files_of_run(cfg)}
    for key in ("weights", "load_from"):
        file = Source.of(cfg.get(key) or RANDOM).file
        if file and Path(whole_path(file)).resolve() in doomed:
            raise UserValueError(
                f"overwrite deletes the checkpoints in {work_dir}, but {key}={cfg[key]!r} is one "
                "of them; copy it elsewhere, or give another work_dir."
            )


def require_same_config(cfg: Config) -> None:
    """Refuse to resume a run in its work dir by a config of another name.

    Both would be in the folder, and the exported weights would have another name than its report
    looks for.
    """
    work_dir = Path(cfg.work_dir)
    found = sorted(path.name for path in work_dir.glob("*.py"))
    name = f"{Path(cfg.filename).stem}.py" if cfg.filename else ""
    if not name or not found or name in found:
        return
    if Path(cfg.load_from).resolve().parent == work_dir.resolve():
        raise UserValueError(
            f"cannot resume: {work_dir} has {' and '.join(found)}, but got a config {name}. Give "
            "the config of the run, with --cfg-options for other values, or rename yours."
        )


def files_of_run(cfg: Config) -> list[Path]:
    """Return the checkpoints of the run in ``cfg.work_dir``, and its scores, recipe and report.

    Without a checkpoint or record, such files may be of something else.
    """
    paths = [*Path(cfg.work_dir).glob("*")]
    found = [path for path in paths if _RUN_FILES.fullmatch(path.name)]
    if found or any(path.name == RECORD_FILE for path in paths):
        found += [path for path in paths if _SAID_OF_RUN.fullmatch(path.name)]
    return found


def finished_weights(cfg: Config) -> Path | None:
    """Return the final weights if the run to resume is complete, else None.

    They are the exported backbone of a pre-training, or the last checkpoint of another training.
    That checkpoint is older than the last validation, and the export may be of a shorter training,
    so the record of the run decides. Records of 0.3.0 and older do not say it: there a pre-training
    counts as ended.
    """
    checkpoint = cfg.get("load_from")
    if not cfg.get("resume") or not checkpoint or "://" in checkpoint:
        return None

    meta = read_checkpoint(checkpoint, mmap=True)["meta"]
    epochs = cfg.train_cfg.get("max_epochs", math.inf)
    steps = cfg.train_cfg.get("max_iters", math.inf)
    if meta["epoch"] < epochs and meta["iter"] < steps:
        return None

    exports = is_pretraining(cfg)
    if not has_ended(cfg.work_dir, unknown=exports):
        return None

    weights = Path(checkpoint)
    if exports:
        weights = Path(cfg.work_dir) / f"{Path(cfg.filename).stem}_backbone.pth"
    return weights if weights.is_file() else None


def finished_line(cfg: Config, weights: Path) -> str:
    """Return the line that says that a run is complete."""
    return f"the run in {cfg.work_dir} is finished, nothing is left to do; its weights: {weights}"


def newest_intact(work_dir: str | Path) -> Path | None:
    """Return the newest checkpoint with every byte checked, None before the first save.

    The one that ``last_checkpoint`` names is tried first, then those with most steps.

    Raises:
        FileNotFoundError: There are checkpoints, but all are damaged.
    """
    faults = []
    for path in _in_order(Path(work_dir)):
        fault = _fault(path)
        if not fault:
            return path
        faults.append(f"{path}: {fault}")
        keep_off_console(MMLogger.get_current_instance())  # its short form, before a run, too
        print_log(f"skipping {faults[-1]}.", logger="current", level=logging.WARNING)

    if not faults:
        return None
    raise UserFileNotFoundError(
        f"{work_dir} has no intact checkpoint ({'; '.join(faults)}). Give a checkpoint file, or "
        "start a new run in another work dir."
    )


def require_newest(work_dir: str | Path) -> Path:
    """As ``newest_intact``, but raises FileNotFoundError instead of returning None."""
    found = newest_intact(work_dir)
    if found is None:
        text = f"{work_dir} has no checkpoint yet; train first, or give the .pth file."
        raise UserFileNotFoundError(text)
    return found


def existing_checkpoint(path: str | Path, name: str) -> Path:
    """Return the checkpoint that a user gives as a file or as the folder of its run."""
    path = check_checkpoint(path, name)
    return require_newest(path) if path.is_dir() else path


def _in_order(folder: Path) -> Iterator[Path]:
    """Yield the file that ``last_checkpoint`` names; read the others only if it is no good."""
    named = None
    pointer = folder / POINTER
    if pointer.exists():
        text = os.fsdecode(pointer.read_bytes().strip(b"\0 \t\r\n"))
        # Only the name: the pointer has the full path, but the folder may have been moved.
        named = folder / (Path(text).name or POINTER)
        yield named

    files = {*folder.glob("*.pth")} - {named}
    steps = {path: _num_steps(path) for path in files if not _NO_TRAINING.fullmatch(path.stem)}
    found = {path: number for path, number in steps.items() if number is not None}
    yield from sorted(found, key=lambda path: (found[path], path.name), reverse=True)


def _num_steps(path: Path) -> float | None:
    """Return the steps of a checkpoint, infinity if it cannot be read, None for bare weights."""
    try:
        content = read_checkpoint(path, mmap=True)
        return float(content["meta"]["iter"]) if "meta" in content else None
    except Exception:  # damaged files raise almost any class; ``_fault`` says why
        return math.inf


def _fault(path: Path) -> str:
    """Check all bytes of a file; return what is wrong, '' if nothing."""
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
