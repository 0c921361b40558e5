"""Start a planned run in its work dir, or resume the run there."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mmengine.config import Config

from ..models import is_pretraining
from ..reporting import report_run
from ..saving.run_files import finished_line, finished_weights, newest_intact
from ..saving.run_record import RECIPE_FILE, REPORT_FILE
from ..system.outputs import require_space, write_whole
from .devices import gpus_of_run
from .forecast import Forecast
from .train import train_config
from .work_dirs import refuse_given, refuse_used

R = TypeVar("R")
Log = Callable[[str], object]
"""Receives lines for the user."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A new run, ready to start in an unused work dir."""

    name: str  # of its config's file
    cfg: Config
    recipe: Mapping[str, Any]  # what was printed, ready for JSON
    forecast: Forecast
    num_gpus: int  # 0 is the CPU
    write_inputs: Callable[[Path], object] = lambda work_dir: None  # other files that it reads


def start_run(
    work_dir: Path,
    planned: PlannedRun,
    finish: Callable[[Path], R],
    *,
    resume_by: Sequence[str],
    log: Log,
) -> R:
    """Claim a work dir, write the files of a run, train it, and report.

    Args:
        work_dir: Unused folder.
        planned: The run.
        finish: Is called after the training with the config file. Its result is returned.
        resume_by: Command that resumes the run with ``--resume``.
        log: Receives lines for the user.

    Raises:
        FileExistsError: The work dir holds files.
        OSError: The disk has no space for the checkpoints.
    """
    config = work_dir / f"{planned.name}.py"
    require_space(work_dir, planned.forecast.disk_bytes)
    refuse_used(work_dir)  # another run may have started meanwhile
    work_dir.mkdir(parents=True, exist_ok=True)

    # From the config on, the run can resume: all other files come first.
    planned.write_inputs(work_dir)
    write_whole(work_dir / RECIPE_FILE, json.dumps(planned.recipe, indent=2) + "\n")
    write_whole(config, planned.cfg.pretty_text)
    log(f"config: {config}")

    train_config(config, work_dir, num_gpus=planned.num_gpus, resume=None, resume_by=resume_by)
    return _finish(planned.cfg, config, finish, planned.num_gpus, log)


def resume_run(
    cfg: Config, asked: Any, finish: Callable[[Path], R], *, resume_by: Sequence[str], log: Log
) -> R:
    """Resume the run of a config file in its work dir, and report; arguments as in ``start_run``.

    Raises:
        FileNotFoundError: All checkpoints are damaged.
        RuntimeError: The run began on more GPUs than there are.
        ValueError: ``asked`` has options for a new run.
    """
    config = Path(cfg.filename)
    work_dir = config.parent
    refuse_given(asked, config)

    newest = newest_intact(work_dir)
    cfg.work_dir = str(work_dir)
    cfg.merge_from_dict({"resume": True, "load_from": newest and str(newest)})
    if is_pretraining(cfg) and (weights := finished_weights(cfg)):
        log(finished_line(cfg, weights))
        if (work_dir / REPORT_FILE).is_file():
            log(f"report: {work_dir / REPORT_FILE}")
        return finish(config)

    num_gpus = gpus_of_run(cfg)
    checkpoint = cfg.load_from or "auto"
    train_config(config, work_dir, num_gpus=num_gpus, resume=checkpoint, resume_by=resume_by)
    return _finish(cfg, config, finish, num_gpus, log)


def _finish(cfg: Config, config: Path, finish: Callable[[Path], R], num_gpus: int, log: Log) -> R:
    result = finish(config)
    # The first of several processes has reported its pre-training.
    if num_gpus <= 1 or not is_pretraining(cfg):
        report_run(config.parent, log)
    return result
