"""How long a step of each method takes, measured in one go, and how much it computes.

    python -m mmssprl.experiments.compare.pace FOLDER

The methods take turns, so that whatever slows the machine down for a while slows them all.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
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
from ...pretraining.methods import SSPRL, Method
from ...system.environment import describe_machine
from ...system.outputs import write_whole
from ...timing.stopwatch import LoadedSteps, work_ns
from ..run import MEASURED, SETTINGS, Run, module_command, read_result, run_module
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
            told = f"{len(watch.seconds)} steps, median {1000 * median(watch.seconds):.0f} ms"
            print(f"turn {number + 1} of {rounds}: {key}, {told}", flush=True)
        # A tenth of what the runs will take is enough for all turns.
        runs_s = settings["run_steps"] * median(turns[SSPRL.key][0])
        limit_s = min(limit_s, runs_s / 10 / rounds / len(methods))
    measured = {
        "seconds": {key: median(chain(*values)) for key, values in turns.items()},
        "turns": turns,
        "flops": flops,
        "machine": describe_machine(get_device()),
    }
    write_whole(folder / MEASURED, json.dumps(measured, indent=2) + "\n")


ROUNDS, STEPS, SECONDS = 5, 40, 12.0
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


def plan_paces(
    work_dir: Path,
    setting: CompareSetting,
    methods: Sequence[Method],
    images: TrainingImages,
    known: Mapping[str, MethodPace],
    *,
    is_timed: bool,
    num_seeds: int,
) -> Run | None:
    """Return the run that measures what is not ``known``, beside SS-PRL; or None.

    Unless it ``is_timed``, for equal time, one step of each tells its operations.
    """
    missing = [method for method in methods if method.trains and method.key not in known]
    if not missing:
        return None
    # Those of former configs and code keep their folders, too.
    folders = (work_dir / "paces" / f"{number}" for number in count())
    folder = next(path for path in folders if not (path / "result.json").exists())
    measured = {
        method.key: {
            **source_of(method, setting.size),
            "recipe": recipe_digest(setting, method),
            "options": common_options(
                setting, method, images=images, epochs=setting.epochs, seed=0, lr_factor=1
            ),
        }
        for method in (SSPRL, *missing)
    }
    recipes = {key: each["recipe"] for key, each in measured.items()}
    run_steps = num_seeds * len(measured) * setting.epochs
    run_steps *= images.num_images // setting.batch_size
    limits: dict[str, Any] = {"rounds": 1, "steps": 1, "seconds": 0.0, "run_steps": run_steps}
    if is_timed:
        limits |= {"rounds": ROUNDS, "steps": STEPS, "seconds": SECONDS}
    return Run(
        name=f"pace of {counted(len(measured), 'method')}",
        folder=folder,
        commands=(module_command(f"{__package__}.pace", folder),),
        inputs={"methods": measured, "code": code_digest(), **limits},
        settings={"recipes": recipes, "is_timed": is_timed, **_common(setting, images)},
    )


def read_paces(
    work_dir: Path,
    setting: CompareSetting,
    methods: Mapping[str, Method],
    images: TrainingImages,
    *,
    is_timed: bool,
) -> dict[str, MethodPace]:
    """Return each method's first pace that was measured with today's settings and code.

    Where it ``is_timed``, those of one step do not count.
    """
    found: dict[str, MethodPace] = {}
    numbers = sorted(int(path.parent.name) for path in work_dir.glob("paces/*/result.json"))
    for number in numbers:
        kept = read_result(work_dir / "paces" / f"{number}" / "result.json")
        recipes, was_timed = kept.settings.pop("recipes"), kept.settings.pop("is_timed", True)
        if is_timed and not was_timed:
            continue
        current = [
            key
            for key, digest in recipes.items()
            if key in methods and digest == recipe_digest(setting, methods[key])
        ]
        if kept.settings != _common(setting, images) or SSPRL.key not in current:
            continue
        seconds, flops = kept.values["seconds"], kept.values["flops"]
        for key in current:
            sides = (seconds[key], seconds[SSPRL.key], flops[key], flops[SSPRL.key])
            pace = MethodPace(*sides, kept.values["machine"])
            found.setdefault(key, pace)
    return found


def _common(setting: CompareSetting, images: TrainingImages) -> dict[str, Any]:
    """Return what a pace depends on beside the config of its method."""
    about = {"images": images.digest, "batch_size": setting.batch_size}
    return {"code": code_digest(), **about}


def epochs_for_equal(
    what: Literal["time", "flops"], epochs: int, pace: MethodPace, method: Method
) -> int:
    """Return for how many epochs a method takes as much as SS-PRL for ``epochs``."""
    own: float = pace.seconds if what == "time" else pace.flops
    reference: float = pace.reference_seconds if what == "time" else pace.reference_flops
    exact = epochs * reference / own
    if round(exact) < 1:
        raise UserValueError(
            f"every method must get at least one epoch, but {counted(epochs, 'epoch')} of SS-PRL "
            f"are {exact:.2f} of {method.key} in equal {what}; raise --epochs to "
            f"{-(-own // reference):.0f}, or leave {method.key} out."
        )
    return round(exact)


if __name__ == "__main__":
    run_module(measure)
