"""Start a pre-training in a work dir, or resume the one there."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..config.reading import read_config_file
from ..config.run_config import require
from ..config.shipped import shipped
from ..console.options import collect, documented
from ..console.quiet import is_verbose
from ..engine.launch import launch, prepare_train_config
from ..errors import UserFileNotFoundError, called
from ..reporting import report_run
from ..runs.devices import gpus_of_run
from ..runs.work_dirs import DEFAULT_PARENT, refuse_given, refuse_other, refuse_used
from ..saving.run_files import finished_line, finished_weights, newest_intact
from ..saving.run_record import RECIPE_FILE, REPORT_FILE
from ..system.commands import command_words
from ..system.outputs import require_space, write_whole
from ..system.processes import run_processes
from .methods import PRETRAINED
from .options import PretrainOptions
from .plan import make_plan


@documented(PretrainOptions)
@called("images")
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
        The backbone's weights; None after a dry run.

    Raises:
        FileExistsError: The work dir of a new run holds files.
        FileNotFoundError: There are no such images, or there is no run to resume.
        OSError: The disk has no space for the checkpoints.
        ValueError: Images or options cannot be trained with, or a resumed run has options.
        RuntimeError: Too little memory, or a process failed.
    """
    asked, images = collect(PretrainOptions, locals()), str(images)
    folder = Path(work_dir or DEFAULT_PARENT / f"pretrain_{Path(images).resolve().name}")
    if resume:
        cfg = config_of_run(folder, images)
        config = Path(cfg.filename)
        refuse_given(asked, config)
        cfg.work_dir = str(folder)
        newest = newest_intact(folder)
        checkpoint = str(newest) if newest else None
        cfg.merge_from_dict({"resume": True, "load_from": checkpoint})
        finished = finished_weights(cfg)
        if finished is not None:
            log(finished_line(cfg, finished))
            if (folder / REPORT_FILE).is_file():
                log(f"report: {folder / REPORT_FILE}")
            return finished
        num_gpus = gpus_of_run(cfg)
    else:
        recipe, expected, printed = make_plan(images, folder, asked, log)
        if dry_run:
            return None
        require_space(folder, expected.disk_bytes)
        refuse_used(folder)  # another run may have started meanwhile
        config = folder / f"{recipe.method.key}_{recipe.backbone.file_name}.py"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(config, recipe.cfg.pretty_text)
        write_whole(folder / RECIPE_FILE, json.dumps(printed, indent=2) + "\n")
        log(f"config: {config}")
        num_gpus = recipe.num_devices if recipe.on_gpu else 0
        checkpoint = None
    train_config(
        config,
        folder,
        num_gpus=num_gpus,
        resume=(checkpoint or "auto") if resume else None,
        resume_by=command_words("pretrain", images, "--work-dir", folder),
    )
    if num_gpus <= 1:  # the first of several processes does it
        report_run(folder, log)
    return folder / f"{config.stem}_backbone.pth"


def train_config(
    config: Path, work_dir: Path, *, num_gpus: int, resume: str | None, resume_by: Sequence[str]
) -> None:
    """Train a config in one process per GPU, or in this process on one GPU or a CPU.

    ``resume`` is as in ``prepare_train_config``; ``resume_by`` resumes the run with ``--resume``.
    """
    resume_by = [*resume_by, "--resume"]
    if num_gpus > 1:
        if resume == "auto":  # found once, not by each process
            resume = str(newest_intact(work_dir) or "auto")
        command = ["--standalone", f"--nproc_per_node={num_gpus}"]
        command += [str(shipped("tools/train.py")), str(config)]
        command += ["--work-dir", str(work_dir), "--launcher", "pytorch", "--amp"]
        command += [*(["--resume", resume] if resume else []), *["--verbose"] * is_verbose()]
        run_processes(command, resume_by)
        return
    cfg = prepare_train_config(config, work_dir=work_dir, resume=resume, amp=num_gpus > 0)
    launch(cfg, "train", resume_by=resume_by)


def config_of_run(work_dir: Path, images: str) -> Config:
    """Read the config of the run on ``images`` in a work dir."""
    configs = [path for key in PRETRAINED for path in work_dir.glob(f"{key}_*.py")]
    if len(configs) != 1:
        raise UserFileNotFoundError(
            f"resume needs the config of one run in {work_dir}, but found {len(configs)}; correct "
            "work_dir, or leave resume out to start a run."
        )
    cfg = read_config_file(configs[0])
    require(cfg, **{"train_dataloader.dataset.data_root": str, "train_cfg.max_epochs": int})
    refuse_other("images", cfg.train_dataloader.dataset.data_root, images)
    return cfg
