"""How long a step of each method takes, beside SS-PRL's, and how much it computes.

    python -m mmssprl.experiments.compare.pace FOLDER

Both take turns, so that whatever slows the machine down for a while slows both.
"""

import json
import math
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

from mmengine.device import get_device

from ...config.at_size import read_at_size
from ...console.wording import counted
from ...engine.launch import prepare_train_config
from ...engine.launch import run as launch
from ...errors import UserValueError
from ...features import TeacherHook
from ...pretraining.methods import SSPRL, Method
from ...system.environment import describe_machine
from ...system.outputs import write_whole
from ...timing.stopwatch import LoadedSteps, work_ns
from ..run import MEASURED, SETTINGS, Run, module_command, run_module
from .images import TrainingImages
from .setting import (
    CompareSetting,
    code_digest,
    common_options,
    recipe_digest,
    source_of,
    trains_mixed,
)


def measure(folder: Path) -> None:
    """Measure what the settings in ``folder`` name: seconds of the steps, operations of one."""
    settings = json.loads((folder / SETTINGS).read_text())
    methods = settings["methods"]
    turns: dict[str, list[list[float]]] = {key: [] for key in methods}
    flops: dict[str, int] = {}
    passes: dict[str, float] = {}
    rounds, limit_s = settings["rounds"], settings["seconds"]
    for number in range(rounds):
        for key, method in methods.items():
            with TemporaryDirectory(dir=folder) as work_dir:
                options = {**method["options"], "default_hooks.checkpoint": None}
                how: dict[str, Any] = {
                    "work_dir": work_dir,
                    "amp": trains_mixed(),
                    "cfg_options": options,
                }
                cfg = read_at_size(method["config"], method["size"])
                cfg = prepare_train_config(cfg, **how)
                cfg.experiment_name = Path(work_dir).name  # mmengine's own ends in the second
                watch = LoadedSteps(
                    least=1,
                    most=settings["steps"] if number else min(_FIRST_STEPS, settings["steps"]),
                    max_seconds=limit_s,
                    now=work_ns(),
                    counts_flops=not number,
                )
                launch(cfg, "train", hooks=[watch])
            turns[key].append([round(value, 6) for value in watch.seconds])
            flops.setdefault(key, watch.flops)
            hooks = watch.runner.hooks
            passes[key] = sum(hook.seconds for hook in hooks if isinstance(hook, TeacherHook))
            told = f"{len(watch.seconds)} steps, median {1000 * median(watch.seconds):.0f} ms"
            print(f"turn {number + 1} of {rounds}: {key}, {told}", flush=True)
        # A tenth of what the runs will take is enough for all turns.
        runs_s = settings["run_steps"] * median(turns[SSPRL.key][0])
        limit_s = min(limit_s, runs_s / 10 / rounds / len(methods))
    measured = {
        "seconds": {key: median(chain(*values)) for key, values in turns.items()},
        "turns": turns,
        "flops": flops,
        "passes": passes,
        "machine": describe_machine(get_device()),
    }
    write_whole(folder / MEASURED, json.dumps(measured, indent=2) + "\n")


ROUNDS, STEPS, SECONDS = 3, 40, 12.0
"""Turns of each method; steps timed in a turn, or fewer where they take longer than that, or where
all turns would take more than a tenth of the runs."""
_FIRST_STEPS = 3
"""Of the first turn, in which the operations of a step are counted, too."""


@dataclass(frozen=True)
class MethodPace:
    """What a step of a method takes, and one of SS-PRL's, measured in turns with it.

    Seconds are medians, of this process on a CPU, else of the device; FLOPs are those of a step,
    forward and backward.
    """

    seconds: float
    reference_seconds: float
    flops: int
    reference_flops: int
    machine: str
    pass_steps: float = 0.0  # how many steps a teacher's pass takes as long as


@dataclass(frozen=True, eq=False, kw_only=True)
class PaceRun(Run):
    """Turns of a method and SS-PRL."""

    method: Method

    def pace(self) -> MethodPace | None:
        """Return what was measured with today's settings and code, if it was."""
        kept = self.kept()
        if kept is None:
            return None
        seconds, flops = kept.values["seconds"], kept.values["flops"]
        own, reference = self.method.key, SSPRL.key
        return MethodPace(
            seconds[own],
            seconds[reference],
            flops[own],
            flops[reference],
            kept.values["machine"],
            kept.values.get("passes", {}).get(own, 0.0) / seconds[own],
        )


def plan_pace(
    work_dir: Path,
    setting: CompareSetting,
    method: Method,
    images: TrainingImages,
    num_seeds: int,
) -> PaceRun:
    """Return the run that measures a method beside SS-PRL, for ``num_seeds`` runs of it."""
    measured = {
        each.key: {
            **source_of(each, setting.size),
            "recipe": recipe_digest(setting, each),
            "options": common_options(
                setting, each, images=images, epochs=setting.epochs, seed=0, lr_factor=1
            ),
        }
        for each in (SSPRL, method)
    }
    steps = num_seeds * setting.epochs * (images.num_images // setting.batch_size)
    limits = {"rounds": ROUNDS, "steps": STEPS, "seconds": SECONDS, "run_steps": steps}
    settings = {
        "recipes": {key: each["recipe"] for key, each in measured.items()},
        "code": code_digest(),
        "images": images.digest,
        "batch_size": setting.batch_size,
    }
    folder = work_dir / "paces" / method.key
    return PaceRun(
        name=f"pace of {method.title}",
        folder=folder,
        commands=(module_command(f"{__package__}.pace", folder),),
        inputs={"methods": measured, **settings, **limits},
        settings=settings,
        method=method,
    )


def epochs_for_equal(
    what: Literal["time", "flops"],
    epochs: int,
    pace: MethodPace,
    method: Method,
    steps_per_epoch: int,
) -> int:
    """Return for how many epochs a method takes as much as SS-PRL for ``epochs``.

    In equal time the pass of a teacher counts.
    """
    own: float = pace.seconds if what == "time" else pace.flops
    reference: float = pace.reference_seconds if what == "time" else pace.reference_flops
    passes = pace.pass_steps / steps_per_epoch if what == "time" else 0.0  # in epochs
    exact = epochs * reference / own - passes
    if round(exact) < 1:
        raise UserValueError(
            f"every method must get at least one epoch, but {counted(epochs, 'epoch')} of SS-PRL "
            f"are {max(0, exact):.2f} of {method.key} in equal {what}; raise --epochs to "
            f"{math.ceil((1 + passes) * own / reference)}, or leave {method.key} out."
        )
    return round(exact)


if __name__ == "__main__":
    run_module(measure)
