"""Start a pre-training in a work dir, or resume the one there."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..config.reading import read_config_file
from ..config.run_config import require
from ..console.options import documented
from ..errors import UserFileNotFoundError, called
from ..runs.start import Log, resume_run, start_run
from ..runs.work_dirs import DEFAULT_PARENT, refuse_other
from ..system.commands import command_words
from .methods import PRETRAINED
from .options import PretrainOptions
from .plan import plan_pretraining


@documented(PretrainOptions)
def pretrain(
    images: str | Path,
    work_dir: str | Path | None = None,
    *,
    method: str | None = None,
    backbone: str | None = None,
    epochs: int | None = None,
    budget: str | None = None,
    batch_size: int | None = None,
    accumulate: int | None = None,
    image_px: int | None = None,
    lr: float | None = None,
    channels: int | None = None,
    weights: str | Path | None = None,
    teacher: str | Path | None = None,
    gpus: int | None = None,
    num_workers: int | None = None,
    probe: str | Path | None = None,
    cfg_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    dry_run: bool = False,
    resume: bool = False,
    log: Callable[[str], object] = print,
) -> Path | None:
    """Train on a folder of images with a recipe chosen for them, or resume such a training.

    Args:
        images: Folder of images or of tar files, or one tar file.
        work_dir: Folder of the run; None takes work_dirs/pretrain_<name of ``images``>.
        log: Receives recipe, forecast and progress, line by line.

    Returns:
        The file of the backbone's weights; None after a dry run.

    Raises:
        FileExistsError: The work dir of a new run holds files.
        FileNotFoundError: There are no such images, or there is no run to resume.
        OSError: The disk has no space for the checkpoints.
        ValueError: Images or options cannot be trained with, or a resumed run has options.
        RuntimeError: Too little memory, or a process failed.
    """
    asked = PretrainOptions(
        method=method,
        backbone=backbone,
        epochs=epochs,
        budget=budget,
        batch_size=batch_size,
        accumulate=accumulate,
        image_px=image_px,
        lr=lr,
        channels=channels,
        weights=weights,
        teacher=teacher,
        gpus=gpus,
        num_workers=num_workers,
        probe=probe,
        cfg_options=cfg_options,
        seed=seed,
        dry_run=dry_run,
        resume=resume,
    )
    return run_pretraining(str(images), work_dir, asked, log)


@called("images")
def run_pretraining(
    images: str, work_dir: str | Path | None, asked: PretrainOptions, log: Log
) -> Path | None:
    """Do what ``pretrain`` does, with its options as one object."""
    folder = Path(work_dir or DEFAULT_PARENT / f"pretrain_{Path(images).resolve().name}")
    words = ("pretrain", images, "--work-dir", folder)
    if asked.resume:
        cfg = config_of_run(folder, images)
        return resume_run(cfg, asked, backbone_of, resume_by=command_words(*words), log=log)

    planned = plan_pretraining(images, folder, asked, log)
    if asked.dry_run:
        return None
    # The command names the modules that the plan has imported.
    return start_run(folder, planned, backbone_of, resume_by=command_words(*words), log=log)


def backbone_of(config: Path) -> Path:
    """Return the file with the backbone of a finished run."""
    return config.with_name(f"{config.stem}_backbone.pth")


def config_of_run(work_dir: Path, images: str) -> Config:
    """Read the config of the run on ``images`` in a work dir."""
    configs: list[Path] = []
    for key in PRETRAINED:
        configs += work_dir.glob(f"{key}_*.py")
    if len(configs) != 1:
        raise UserFileNotFoundError(
            f"resume needs the config of one run in {work_dir}, but found {len(configs)}; correct "
            "work_dir, or leave resume out to start a run."
        )
    cfg = read_config_file(configs[0])
    require(cfg, **{"train_dataloader.dataset.data_root": str, "train_cfg.max_epochs": int})
    refuse_other("images", cfg.train_dataloader.dataset.data_root, images)
    return cfg
