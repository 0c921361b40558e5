"""Fine-tune in a work dir, or resume the run there, and score it."""

from collections.abc import Callable
from pathlib import Path

from mmengine.config import Config

from ..config.reading import read_config_file
from ..config.run_config import require
from ..console.options import documented
from ..datasets.labels.files import data_folder
from ..errors import UserFileNotFoundError, UserValueError
from ..runs.start import Log, resume_run, start_run
from ..runs.work_dirs import DEFAULT_PARENT, refuse_other
from ..system.commands import command_words
from ..weights import whole_path
from .config import check_options
from .options import FinetuneOptions
from .plan import plan_finetuning
from .scores import Outcome, score_run


@documented(FinetuneOptions)
def finetune(
    weights: str | Path,
    data: str | Path,
    task: str,
    work_dir: str | Path | None = None,
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    image_px: int | None = None,
    freeze: bool = False,
    val_share: float | None = None,
    share: float | None = None,
    seed: int | None = None,
    resume: bool = False,
    log: Callable[[str], object] = print,
) -> Outcome:
    """Train a task on labelled images, score it, and draw some predictions.

    Args:
        weights: Backbone weights or a training checkpoint, 'random' or 'supervised'.
        data: Folder of the labelled images, or its data.yaml or COCO .json.
        task: 'classify', 'detect' or 'segment'.
        work_dir: Folder of the run; None takes work_dirs/<task>_<name of ``data``>.
        log: Receives labels, recipe, forecast and progress, line by line.

    Returns:
        The scores.

    Raises:
        FileExistsError: The work dir of a new run holds files.
        FileNotFoundError: There are no such data or weights, or there is no run to resume.
        ValueError: Data, weights or options cannot be trained with.
        RuntimeError: Too little memory, a missing package, or a process failed.
    """
    asked = FinetuneOptions(
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        image_px=image_px,
        freeze=freeze,
        val_share=val_share,
        share=share,
        seed=seed,
        resume=resume,
    )
    return run_finetuning(str(weights), str(data), task, work_dir, asked, log)


def run_finetuning(
    weights: str,
    data: str,
    task: str,
    work_dir: str | Path | None,
    asked: FinetuneOptions,
    log: Log,
    backbone_from: str | None = None,
) -> Outcome:
    """Do what ``finetune`` does, with its options as one object.

    ``backbone_from`` is as for ``finetune_config``.
    """
    if not asked.resume:
        check_options(weights, task, asked)
    root = data_folder(data)
    folder = Path(work_dir or DEFAULT_PARENT / f"{task}_{root.resolve().name}")
    resume_by = command_words("finetune", weights, data, "--task", task, "--work-dir", folder)
    if asked.resume:
        cfg = config_of_run(folder, weights, str(root), task)
        return resume_run(cfg, asked, score_run, resume_by=resume_by, log=log)

    planned = plan_finetuning(weights, data, task, folder, asked, log, backbone_from)
    return start_run(planned, score_run, resume_by=resume_by, log=log)


def config_of_run(work_dir: Path, weights: str, data: str, task: str) -> Config:
    """Read the config of the run of ``weights`` on ``data`` in a work dir."""
    config = work_dir / f"{task}.py"
    if not config.is_file():
        raise UserFileNotFoundError(
            f"there is no run to resume: {config} is missing; correct work_dir and task."
        )
    cfg = read_config_file(config)
    require(cfg, **{"weights": str, "finetuning.data_root": str})
    if not {"num_images", "of_class"} <= cfg.finetuning.keys():
        raise UserValueError(f"{config} is of an older version; start it in another work_dir.")
    refuse_other("data", cfg.finetuning.data_root, data)
    refuse_other("weights", cfg.weights, whole_path(weights))
    return cfg
