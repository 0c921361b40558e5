"""The measured paces of a work dir, and the epochs that they make equal time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ..errors import UserValueError
from ..runs.run import read_result
from ..wording import counted
from .images import TrainingImages
from .methods import SSPRL, Method
from .run import PaceRun, module_command
from .setting import Setting, common_options, recipe_digest

ROUNDS, STEPS = 6, 4
"""Turns of each method, and steps timed in a turn."""


@dataclass(frozen=True)
class Pace:
    """What a step of a method takes.

    Args:
        seconds: Median, of this process on a CPU, else of the device.
        reference_seconds: Of SS-PRL's steps, measured in turns with them.
        flops: Floating-point operations of a step, forward and backward.
        device: 'CPU' or 'device'.
        machine: What it was measured on.
    """

    seconds: float
    reference_seconds: float
    flops: int
    device: str
    machine: str


def plan_paces(
    work_dir: Path,
    setting: Setting,
    methods: Sequence[Method],
    images: TrainingImages,
    known: Mapping[str, Pace],
) -> PaceRun | None:
    """Return the run that measures what is not ``known``, beside SS-PRL; or None."""
    missing = [method for method in methods if method.trains and method.key not in known]
    if not missing:
        return None
    measured = {method.key: method for method in (SSPRL, *missing)}
    # Those of former configs keep their folders, too.
    folders = (work_dir / "paces" / f"{number}" for number in count())
    folder = next(path for path in folders if not (path / "result.json").exists())
    return PaceRun(
        name=f"pace of {counted(len(measured), 'method')}",
        kind="pace",
        folder=folder,
        commands=(module_command("pace", folder),),
        rounds=ROUNDS,
        steps=STEPS,
        methods={
            key: {
                "config": str(method.config_file(setting.size)),
                "recipe": recipe_digest(setting, method),
                "options": common_options(
                    setting, method, images=images, epochs=setting.epochs, seed=0, lr_factor=1
                ),
            }
            for key, method in measured.items()
        },
    )


def read_paces(work_dir: Path, setting: Setting, methods: Mapping[str, Method]) -> dict[str, Pace]:
    """Return the paces that were measured with today's configs, by method; the first of each.

    Args:
        work_dir: Of the comparison.
        setting: Of the comparison.
        methods: That are asked about, by key, SS-PRL among them.
    """

    def is_current(key: str, recipes: dict[str, Any]) -> bool:
        method = methods.get(key)
        return method is not None and recipes[key] == recipe_digest(setting, method)

    found: dict[str, Pace] = {}
    for path in sorted(
        work_dir.glob("paces/*/result.json"), key=lambda path: int(path.parent.name)
    ):
        content = read_result(path)
        recipes, values = content["settings"]["recipes"], content["values"]
        if not is_current(SSPRL.key, recipes):
            continue
        for key, seconds in values["seconds"].items():
            if is_current(key, recipes):
                pace = Pace(
                    seconds,
                    values["seconds"][SSPRL.key],
                    values["flops"][key],
                    values["device"],
                    values["machine"],
                )
                found.setdefault(key, pace)
    return found


def epochs_in_equal_time(epochs: int, pace: Pace, key: str, option: str = "--epochs") -> int:
    """Return for how many epochs a method takes as long as SS-PRL for ``epochs``.

    Args:
        epochs: Of SS-PRL.
        pace: Of the method.
        key: Of the method.
        option: That ``epochs`` is given by.

    Raises:
        ValueError: Less than one.
    """
    exact = epochs * pace.reference_seconds / pace.seconds
    if round(exact) < 1:
        raise UserValueError(
            f"every method must get at least one epoch, but {counted(epochs, 'epoch')} of SS-PRL "
            f"are {exact:.2f} of {key} in equal time; raise {option} to "
            f"{-(-pace.seconds // pace.reference_seconds):.0f}, or leave {key} out."
        )
    return round(exact)
