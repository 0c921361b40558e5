"""Start a fine-tuning in a work dir, or go on with the one that it holds."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from mmengine.config import Config

from ..config.found_config import read_found, require
from ..console.options import collect, documented
from ..console.tables import reasons_table
from ..console.wording import wrapped
from ..datasets.labels import DEFAULT_VAL_SHARE, find_labels
from ..errors import UserFileNotFoundError, UserValueError
from ..pretraining.start import train
from ..pretraining.work_dir import default_work_dir, read_roots, refuse_given, refuse_used
from ..system.outputs import require_space, write_whole
from ..timing.forecast import Forecast, may_start, measure_pace
from .config import check_options, make_config, set_label_files
from .evaluate import Outcome, evaluate
from .label_files import write_labels
from .options import FinetuneOptions
from .recipe import FinetuneRecipe


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
    backbone: str | None = None,
    val_share: float | None = None,
    seed: int | None = None,
    resume: bool = False,
    yes: bool = False,
    verbose: bool = False,
    log: Callable[[str], object] = print,
) -> Outcome | None:
    """Train a task on labelled images, score it, and draw some predictions.

    Args:
        weights: Backbone weights or a training checkpoint, 'random' or 'supervised'.
        data: Folder of the labelled images.
        task: 'classify', 'detect' or 'segment'.
        work_dir: Folder of the run; None takes work_dirs/<task>_<name of ``data``>, or -2, -3 ...
            behind it where a run on another folder of that name has it.
        log: Receives what was found, what the run will be and what it will take, line by line.

    Returns:
        The scores. None if a person at the terminal finds the run too long; then nothing was
        written.

    Raises:
        FileExistsError: A new run, and the work dir holds files.
        FileNotFoundError: No such data or weights, or no run to go on with.
        ValueError: Data, weights or an option that nothing can be trained with.
        RuntimeError: A run too long for a CPU, and nobody there to be asked; too little memory; a
            package that is missing; or processes that failed.
    """
    asked = collect(FinetuneOptions, locals())
    weights, data = str(weights), str(data)
    folder = Path(
        work_dir or default_work_dir(task, data, partial(_labelled_images, task), resume=resume)
    )
    if resume:
        config = _config_of_run(folder, weights, data, task)
        refuse_given(asked, config)
    else:
        refuse_used(folder)
        check_options(weights, task, asked)
        share = DEFAULT_VAL_SHARE if asked.val_share is None else asked.val_share
        labels = find_labels(data, task, val_share=share, seed=asked.seed or 0)
        log("\n".join([labels.describe(), *(f"warning: {text}" for text in labels.warnings)]))
        cfg, recipe = make_config(weights, labels, task, asked)
        log(f"{task}, {_backbone(cfg)}, weights of {weights}\n{reasons_table(recipe.rows)}")
        log("timing some steps ...")
        with TemporaryDirectory() as temporary:
            write_labels(labels, Path(temporary))
            set_label_files(cfg, Path(temporary))
            expected = forecast_run(cfg, recipe, folder)
        log(wrapped(expected.line))
        require_space(expected.work_dir, expected.disk_bytes)
        if not may_start(expected, yes=yes):
            return None
        refuse_used(folder)  # another start may have been quicker
        write_labels(labels, folder / "labels")
        set_label_files(cfg, folder / "labels")
        write_whole(folder / "classes.txt", "\n".join(labels.classes) + "\n")
        config = folder / f"{task}.py"
        write_whole(config, cfg.pretty_text)
        log(f"config: {config}")
    words = ["python", "-m", "mmssprl", "finetune", weights, data, "--task", task]
    train(
        config,
        folder,
        num_gpus=torch.cuda.device_count(),
        resume="auto" if resume else None,
        verbose=verbose,
        go_on=[*words, "--work-dir", str(folder)],
    )
    return evaluate(folder, config)


def forecast_run(cfg: Config, recipe: FinetuneRecipe, work_dir: Path) -> Forecast:
    """Time some steps of a run and a part of its validation, and multiply."""
    pace = measure_pace(cfg, amp=recipe.on_gpu, num_devices=recipe.num_devices)
    validations = recipe.epochs // recipe.val_interval + 1  # and the scores at the end
    return Forecast(
        pace,
        epochs=recipe.epochs,
        steps_per_epoch=recipe.steps_per_epoch,
        checkpoint=cfg.default_hooks.checkpoint,
        work_dir=work_dir,
        other_s=validations * pace.validation_s,
    )


def _config_of_run(work_dir: Path, weights: str, data: str, task: str) -> Path:
    """Return the config of the run from ``weights`` on ``data`` that a work dir holds."""
    config = work_dir / f"{task}.py"
    if not config.is_file():
        raise UserFileNotFoundError(
            f"resume needs the config of the run, but there is no {config}; give the work_dir and "
            "the task of the run, or leave resume out to start one."
        )
    cfg = read_found(config)
    require(cfg, **{"weights": str, "finetuning.data_root": str, "finetuning.layout": str})
    started = {"data": (cfg.finetuning.data_root, data), "weights": (cfg.weights, weights)}
    for what, (own, given) in started.items():
        if own not in (given, str(Path(given).resolve())):
            raise UserValueError(
                f"resume goes on with the run's own {what}, {own}, but got {given}; give that, or "
                "start a new run with another work_dir."
            )
    return config


def _labelled_images(task: str, work_dir: Path) -> list[str]:
    """Return the data of the run of a task that a work dir holds the config of."""
    return read_roots(list(work_dir.glob(f"{task}.py")), lambda cfg: cfg.finetuning.data_root)


def _backbone(cfg: Config) -> str:
    backbone = cfg.model.backbone
    fields = [f"{key} {backbone[key]}" for key in ("depth", "arch") if key in backbone]
    return " ".join([str(backbone.type), *fields])
