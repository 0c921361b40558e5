"""What a work dir holds: a run to go on with, a complete one, or another's to refuse or delete."""

import re
from pathlib import Path

from mmengine.config import Config

from ..errors import UserFileExistsError, UserValueError
from ..models import is_pretraining
from ..weights import read_training_checkpoint

# What mmengine's CheckpointHook and PretrainCheckpointHook write; exports have other names.
_RUN_FILES = re.compile(r"((epoch|iter|step)_\d+|best_.+|.+_backbone)\.pth|last_checkpoint")


def folders_of_run(cfg: Config) -> list[Path]:
    """Return where a training of this config leaves pointer and checkpoints, the work dir first."""
    out_dir = ((cfg.get("default_hooks") or {}).get("checkpoint") or {}).get("out_dir")
    work_dir = Path(cfg.work_dir)
    # mmengine puts a folder with the work dir's name into it.
    return [work_dir, Path(out_dir) / work_dir.name] if out_dir else [work_dir]


def check_work_dir(cfg: Config, *, overwrite: bool) -> None:
    """Refuse to write over another run, or to delete what the new one starts from.

    Every rank does so before it meets the others, so that none of them can have saved anything.

    With ``overwrite`` the checkpoints of another run are going to be deleted.
    """
    work_dir = Path(cfg.work_dir)
    pointer = work_dir / "last_checkpoint"
    found = [path for folder in folders_of_run(cfg) for path in sorted(folder.glob("*.pth"))]
    if pointer.exists() and not found:
        found = [pointer]
    if found and not overwrite:
        raise UserFileExistsError(
            f"work_dir must not hold another run, but {found[-1].parent} has {found[-1].name}; go "
            "on with it by --resume, delete its checkpoints by --overwrite, or give another "
            "--work-dir."
        )
    doomed = {path.resolve() for path in files_of_run(cfg)}
    for key in ("weights", "load_from"):
        if cfg.get(key) and Path(cfg[key]).resolve() in doomed:
            raise UserValueError(
                f"--overwrite deletes the checkpoints in {work_dir}, but {key}={cfg[key]!r} is one "
                "of them; copy it elsewhere, or give another --work-dir."
            )


def files_of_run(cfg: Config) -> list[Path]:
    """Return the checkpoints that a training of this config has written, and their pointer."""
    paths = (path for folder in folders_of_run(cfg) for path in folder.glob("*"))
    return [path for path in paths if _RUN_FILES.fullmatch(path.name)]


def finished_weights(cfg: Config) -> Path | None:
    """Return the weights of a run that is to be resumed and is complete, None if it is not.

    Those of a pre-training are the backbone's, of another training its last checkpoint.
    """
    checkpoint = cfg.get("load_from")
    if not cfg.get("resume") or not checkpoint or "://" in checkpoint:
        return None
    meta = read_training_checkpoint(checkpoint, mmap=True)["meta"]
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
