"""A run to be resumed in which nothing is left to do."""

from pathlib import Path

from mmengine.config import Config

from ..models import is_pretraining
from ..weights import read_training_checkpoint
from .checkpoint_checks import first_checkpoint


def finished_weights(cfg: Config) -> Path | None:
    """Return the weights of a run that is to be resumed and is complete, None if it is not.

    Args:
        cfg: Of a training, with ``resume`` and ``work_dir``. Its own length counts: a longer one
            than that of the checkpoint is not complete.

    Returns:
        The backbone's weights of a pre-training, which counts only if they are there, or the last
        checkpoint of another training.

    Raises:
        FileNotFoundError, ValueError: As ``first_checkpoint``, or a file that is no checkpoint.
    """
    checkpoint = first_checkpoint(cfg) if cfg.get("resume") else None
    if checkpoint is None or "://" in checkpoint:
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
