"""Time the steps of a method and of SS-PRL, and count their operations.

    python -m mmssprl.experiments.compare.pace FOLDER

The two take turns, so that a slow phase of the machine slows both.
"""

import math
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

from mmengine.device import get_device

from ...console.wording import counted
from ...distillation import TeacherHook
from ...engine.launch import launch, prepare_train_config
from ...engine.stopwatch import LoadedSteps, work_ns
from ...errors import UserValueError
from ...pretraining.methods import SSPRL
from ...system.environment import describe_machine
from ..run import MEASURED, SETTINGS, read_json, run_module, write_json
from .rows import read_row

ROUNDS = 3
"""Turns of each method. All turns take at most a tenth of the time of the runs."""
STEPS = 40
"""Most steps of a turn."""
SECONDS = 4.0
"""Most seconds of a turn."""

Pace = Mapping[str, Any]
"""Measurements of a method and of SS-PRL by key.

``seconds`` are the median of a step's CPU time on a CPU, else of its wall time. ``flops`` count a
step, forward and backward. ``passes`` are the seconds of a teacher's pass over the images.
"""


def time_steps(folder: Path) -> None:
    """Measure the methods that the settings in ``folder`` name."""
    settings = read_json(folder / SETTINGS)
    methods = settings["methods"]
    limit_s = SECONDS
    turns: dict[str, list[list[float]]] = {key: [] for key in methods}
    flops: dict[str, int] = {}
    passes: dict[str, float] = {}
    for number in range(ROUNDS):
        for key, method in methods.items():
            watch = LoadedSteps(
                least=1,
                most=STEPS if number else min(3, STEPS),  # the first turn counts operations too
                max_seconds=limit_s,
                now=work_ns(),
                counts_flops=not number,
            )
            _train_a_turn(folder, method, watch)
            turns[key].append([round(value, 6) for value in watch.seconds])
            flops.setdefault(key, watch.flops)
            hooks = watch.runner.hooks
            passes[key] = sum(hook.seconds for hook in hooks if isinstance(hook, TeacherHook))
            pace = f"{len(watch.seconds)} steps, median {1000 * median(watch.seconds):.0f} ms"
            print(f"turn {number + 1} of {ROUNDS}: {key}, {pace}", flush=True)

        runs_s = settings["run_steps"] * median(turns[SSPRL.key][0])
        limit_s = min(limit_s, runs_s / 10 / ROUNDS / len(methods))
    measured = {
        "seconds": {key: median(chain(*values)) for key, values in turns.items()},
        "turns": turns,
        "flops": flops,
        "passes": passes,
        "machine": describe_machine(get_device()),
    }
    write_json(folder / MEASURED, measured)


def _train_a_turn(folder: Path, method: Mapping[str, Any], watch: LoadedSteps) -> None:
    """Train a method for the steps that ``watch`` times."""
    with TemporaryDirectory(dir=folder) as work_dir:
        cfg = prepare_train_config(
            read_row(method),
            work_dir=work_dir,
            amp=get_device() == "cuda",
            cfg_options={**method["options"], "default_hooks.checkpoint": None},
        )
        cfg.experiment_name = Path(work_dir).name  # mmengine's is unique per second only
        launch(cfg, "train", hooks=[watch])


def epochs_for_equal(
    what: Literal["time", "flops"],
    epochs: int,
    pace: Pace,
    key: str,
    steps_per_epoch: int,
    steps_of_ssprl: int,
) -> int:
    """Return the epochs of a method, at least one, that take as much as SS-PRL's ``epochs``.

    The numbers of steps of an epoch differ if the method has its own batch size.
    """
    measured = pace["seconds" if what == "time" else "flops"]
    ratio = measured[SSPRL.key] * steps_of_ssprl / (measured[key] * steps_per_epoch)
    passes = 0.0  # the teacher's, in epochs
    if what == "time":
        passes = pace["passes"].get(key, 0.0) / pace["seconds"][key] / steps_per_epoch
    exact = epochs * ratio - passes
    if round(exact) < 1:
        raise UserValueError(
            f"{counted(epochs, 'epoch')} of SS-PRL are {max(0, exact):.2f} of {key} in equal "
            f"{what}, less than one; raise --epochs to {math.ceil((1 + passes) / ratio)}, or leave "
            f"{key} out."
        )
    return round(exact)


if __name__ == "__main__":
    run_module(time_steps)
