"""Fine-tune in a work dir, or resume the run there, and score it."""

from collections.abc import Callable
from pathlib import Path

from ..console.options import documented
from ..datasets.labels.files import data_folder
from ..runs.start import Log, resume_run, start_run
from ..runs.work_dirs import DEFAULT_PARENT
from ..system.commands import command_words
from .options import FinetuneOptions
from .plan import FinetunePlanner
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
        weights: As for ``load_backbone``.
        data: Folder of the labelled images, or its data.yaml or COCO .json.
        task: 'classify', 'detect' or 'segment'.
        work_dir: Folder of the run; None takes work_dirs/<task>_<name of ``data``>.
        log: Receives labels, recipe, forecast and progress, line by line.

    Returns:
        The scores of the validation images, the checkpoint, and the files.

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
    planner = FinetunePlanner(weights=str(weights), data=str(data), task=task, asked=asked)
    return run_finetuning(planner, work_dir, log)


def run_finetuning(planner: FinetunePlanner, work_dir: str | Path | None, log: Log) -> Outcome:
    """Do what ``finetune`` does, with its options as one object."""
    task = planner.task
    data = planner.data
    if not planner.asked.resume:
        planner.check()
    folder = Path(work_dir or DEFAULT_PARENT / f"{task}_{data_folder(data).resolve().name}")
    words = ("finetune", planner.weights, data, "--task", task, "--work-dir", folder)
    if planner.asked.resume:
        cfg = planner.config_of_run(folder)
        log(
            f"objects and classes: as the run read them, in {folder / 'labels'}; to read others, "
            "start a new run. Label images are read again"
        )
        asked = planner.asked
        return resume_run(cfg, asked, score_run, resume_by=command_words(*words), log=log)
    planned = planner.plan(folder, log)
    # The command names the modules that the plan has imported.
    return start_run(folder, planned, score_run, resume_by=command_words(*words), log=log)
