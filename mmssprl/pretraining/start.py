"""Start a pre-training in a work dir, or go on with the one that it holds."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from mmengine.config import Config

from ..config.found_config import read_found
from ..config.reading import one_line
from ..config.shipped import shipped
from ..console.options import collect, documented
from ..console.wording import command_line
from ..engine.launch import prepare_train_config, run
from ..engine.runner import check_trackers
from ..errors import UserRuntimeError, called, message_for_user
from ..saving.newest_checkpoint import newest_intact
from ..saving.run_record import RECIPE_FILE, REPORT_FILE
from ..saving.work_dir import finished_line, finished_weights, folders_of_run
from ..system.outputs import require_space, write_whole
from ..system.processes import run_processes
from ..timing import forecast
from .options import PretrainOptions
from .plan import make_plan
from .work_dir import config_of_run, default_work_dir, pretrained_images, refuse_given, refuse_used


@documented(PretrainOptions)
@called("images")
def pretrain(
    images: str | Path,
    work_dir: str | Path | None = None,
    *,
    method: str | None = None,
    variant: str | None = None,
    backbone: str | None = None,
    epochs: int | None = None,
    budget: str | None = None,
    batch_size: int | None = None,
    accumulate: int | None = None,
    image_px: int | None = None,
    lr: float | None = None,
    weights: str | Path | None = None,
    gpus: int | None = None,
    workers: int | None = None,
    save_every: str | None = None,
    max_bad_share: float | None = None,
    probe: str | Path | Literal[False] | None = None,
    cfg_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    dry_run: bool = False,
    resume: bool = False,
    yes: bool = False,
    tensorboard: bool = False,
    wandb: bool = False,
    verbose: bool = False,
    log: Callable[[str], object] = print,
) -> Path | None:
    """Train on a folder of images with a recipe that suits them, or go on with such a training.

    Args:
        images: Folder of images or of tar files, or one tar file.
        work_dir: Folder of the run; None takes work_dirs/pretrain_<name of ``images``>, or -2, -3
            ... behind it where a run on another folder of that name has it.
        log: Receives what the run will be and what it will take, line by line.

    Returns:
        The backbone's weights. None after a dry run, and if a person at the terminal finds the run
        too long; then nothing was written.

    Raises:
        FileExistsError: A new run, and the work dir holds files.
        FileNotFoundError: No such images, or no run to go on with.
        OSError: Checkpoints that do not fit the disk.
        ValueError: Images or an option that nothing can be trained with, or options for a run that
            has a recipe.
        RuntimeError: A run too long for a CPU, and nobody there to be asked; too little memory; or
            processes that failed.
    """
    asked = collect(PretrainOptions, locals())
    images, trackers = str(images), ["tensorboard"] * tensorboard + ["wandb"] * wandb
    check_trackers(trackers)
    folder = Path(
        work_dir or default_work_dir("pretrain", images, pretrained_images, resume=resume)
    )
    if resume:
        cfg = config_of_run(folder, images)
        config = Path(cfg.filename)
        refuse_given(asked, config)
        cfg.work_dir = str(folder)
        newest = newest_intact(*folders_of_run(cfg))
        checkpoint = None if newest is None else str(newest)
        cfg.merge_from_dict({"resume": True, "load_from": checkpoint})
        finished = finished_weights(cfg)
        if finished is not None:
            log(finished_line(cfg, finished))
            if (folder / REPORT_FILE).is_file():
                log(f"report: {folder / REPORT_FILE}")
            return finished
        num_gpus = gpus_of_run(cfg)
    else:
        refuse_used(folder)
        plan = make_plan(images, folder, asked, log)
        require_space(plan.expected.work_dir, plan.expected.disk_bytes)
        # Who gives a budget has agreed to the time.
        agreed = yes or budget is not None
        if dry_run or not forecast.may_start(plan.expected, yes=agreed):
            return None
        refuse_used(folder)  # another start may have been quicker
        config = folder / f"{plan.recipe.method.run_name}_{plan.recipe.backbone.file_name}.py"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(config, plan.cfg.pretty_text)
        write_whole(folder / RECIPE_FILE, json.dumps(plan.told, indent=2) + "\n")
        log(f"config: {config}")
        num_gpus = plan.recipe.num_devices if plan.recipe.on_gpu else 0
        checkpoint = None
    train(
        config,
        folder,
        num_gpus=num_gpus,
        resume=(checkpoint or "auto") if resume else None,
        verbose=verbose,
        trackers=trackers,
        go_on=["python", "-m", "mmssprl", "pretrain", images, "--work-dir", str(folder)],
    )
    report_run(folder, log)
    return folder / f"{config.stem}_backbone.pth"


def gpus_of_run(cfg: Config) -> int:
    """Return the GPUs that a run goes on with, those of its recipe; 0 is the CPU.

    Fewer GPUs are refused, for each step would have fewer images.
    """
    batch_size, step_images = cfg.train_dataloader.batch_size, cfg.auto_scale_lr.base_batch_size
    wanted, found = max(1, step_images // batch_size), torch.cuda.device_count()
    if wanted > max(1, found):
        raise UserRuntimeError(
            f"a run must go on with the {step_images} images a step that it began with, on {wanted}"
            f" GPUs, but found {found} here; go on where there are as many, or with all images of "
            f"a step at once: mmssprl train {cfg.filename} --work-dir {Path(cfg.filename).parent} "
            f"--resume {'--amp ' * (found > 0)}--cfg-options "
            f"train_dataloader.batch_size={step_images}"
        )
    return min(wanted, found)


def report_run(work_dir: Path, log: Callable[[str], object]) -> None:
    """Write a run's report; what goes wrong with it is a line, for the training is done."""
    try:
        from ..reporting import write_report

        log(f"report: {write_report(work_dir)}")
    except (Exception, KeyboardInterrupt) as error:
        reason = (message_for_user(error) or one_line(error)).rstrip(".")
        command = command_line("report", work_dir)
        log(f"warning: no report ({reason}); make it by `{command}`")


def train(
    config: Path,
    work_dir: Path,
    *,
    num_gpus: int,
    resume: str | None,
    verbose: bool,
    go_on: Sequence[str],
    trackers: Sequence[str] = (),
) -> None:
    """Train on several GPUs, one process for each, or here on one or on a CPU.

    ``resume`` is as for ``prepare_train_config``; ``go_on`` gets the options that go on with it.
    """
    options = ["--verbose"] * verbose + [f"--{name}" for name in trackers]
    go_on = [*go_on, *options, "--resume"]
    if num_gpus > 1:  # the processes run the file, of plain values as they have been read above
        if resume == "auto":  # looked for once, not by each of them
            resume = str(newest_intact(work_dir) or "auto")
        command = ["--standalone", f"--nproc_per_node={num_gpus}"]
        command += [str(shipped("tools/train.py")), str(config)]
        command += ["--work-dir", str(work_dir), "--launcher", "pytorch", "--amp"]
        command += [*(["--resume", resume] if resume else []), *options]
        run_processes(command, go_on)
        return
    cfg = prepare_train_config(
        read_found(config) if resume else config,
        work_dir=work_dir,
        resume=resume,
        amp=num_gpus > 0,
        tensorboard="tensorboard" in trackers,
        wandb="wandb" in trackers,
    )
    run(cfg, "train", go_on=go_on)
