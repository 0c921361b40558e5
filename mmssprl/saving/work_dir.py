"""What other runs have left in a work dir: refused, or deleted when told."""

import re
from pathlib import Path

from mmengine.config import Config

from ..errors import UserFileExistsError, UserValueError
from .checkpoint_checks import folders_of_run

# What mmengine's CheckpointHook and PretrainCheckpointHook write; exports have other names.
_RUN_FILES = re.compile(r"((epoch|iter|step)_\d+|best_.+|.+_backbone)\.pth|last_checkpoint")


def check_work_dir(cfg: Config, *, overwrite: bool) -> None:
    """Refuse to write over another run, or to delete what the new one starts from.

    Rank 0 cannot have saved anything when a slower rank comes here: every rank does so before it
    meets the others in the runner's constructor.

    Args:
        cfg: Config of a new training, with ``work_dir``.
        overwrite: Whether the checkpoints of another run are going to be deleted.

    Raises:
        FileExistsError: The folder holds another run, and ``overwrite`` is not given.
        ValueError: ``overwrite`` would delete the weights that the training starts from.
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
