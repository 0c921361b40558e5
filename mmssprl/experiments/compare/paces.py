"""The measured paces of a work dir, and the epochs that they make equal time or equal FLOPs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from ...console.wording import counted
from ...errors import UserValueError
from ...pretraining.methods import SSPRL, Method
from ..run import read_result
from .images import TrainingImages
from .run import PaceRun, module_command
from .setting import CompareSetting, code_digest, common_options, recipe_digest

ROUNDS, STEPS, SECONDS = 5, 40, 12.0
"""Turns of each method; steps timed in a turn, or fewer where they take longer than that."""


@dataclass(frozen=True)
class MethodPace:
    """What a step of a method takes.

    Args:
        seconds: Median, of this process on a CPU, else of the device.
        reference_seconds: Of SS-PRL's steps, measured in turns with them.
        flops: Floating-point operations of a step, forward and backward.
        reference_flops: Of SS-PRL's.
        device: 'CPU' or 'device'.
        machine: What it was measured on.
    """

    seconds: float
    reference_seconds: float
    flops: int
    reference_flops: int
    device: str
    machine: str


def plan_paces(
    work_dir: Path,
    setting: CompareSetting,
    methods: Sequence[Method],
    images: TrainingImages,
    known: Mapping[str, MethodPace],
) -> PaceRun | None:
    """Return the run that measures what is not ``known``, beside SS-PRL; or None."""
    missing = [method for method in methods if method.trains and method.key not in known]
    if not missing:
        return None
    measured = {method.key: method for method in (SSPRL, *missing)}
    # Those of former configs and code keep their folders, too.
    folders = (work_dir / "paces" / f"{number}" for number in count())
    folder = next(path for path in folders if not (path / "result.json").exists())
    return PaceRun(
        name=f"pace of {counted(len(measured), 'method')}",
        kind="pace",
        folder=folder,
        commands=(module_command("pace", folder),),
        rounds=ROUNDS,
        steps=STEPS,
        seconds=SECONDS,
        code=code_digest(),
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


def read_paces(
    work_dir: Path, setting: CompareSetting, methods: Mapping[str, Method]
) -> dict[str, MethodPace]:
    """Return the paces that were measured with today's configs and code; the first of each method.

    Args:
        work_dir: Of the comparison.
        setting: Of the comparison.
        methods: That are asked about, by key, SS-PRL among them.
    """

    def is_current(key: str, settings: dict[str, Any]) -> bool:
        method = methods.get(key)
        return method is not None and settings["recipes"][key] == recipe_digest(setting, method)

    found: dict[str, MethodPace] = {}
    for path in sorted(
        work_dir.glob("paces/*/result.json"), key=lambda path: int(path.parent.name)
    ):
        content = read_result(path)
        settings, values = content["settings"], content["values"]
        if settings.get("code") != code_digest() or not is_current(SSPRL.key, settings):
            continue
        seconds, flops = values["seconds"], values["flops"]
        for key in filter(lambda key: is_current(key, settings), seconds):
            sides = (seconds[key], seconds[SSPRL.key], flops[key], flops[SSPRL.key])
            found.setdefault(key, MethodPace(*sides, values["device"], values["machine"]))
    return found


def epochs_for_equal(
    what: Literal["time", "flops"], epochs: int, pace: MethodPace, method: Method
) -> int:
    """Return for how many epochs a method takes as much as SS-PRL for ``epochs``.

    Args:
        what: Is equal.
        epochs: Of SS-PRL.
        pace: Of the method.
        method: That is asked about.

    Raises:
        ValueError: Less than one.
    """
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
