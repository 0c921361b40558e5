"""How long a step of each method takes, measured in one go, and how much it computes.

    python -m mmssprl.experiments.compare.pace FOLDER

Started by ``PaceRun``; reads ``settings.json`` of the folder and writes ``measured.json`` there.
The methods take turns, so that whatever slows the machine down for a while slows them all.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, repeat, takewhile
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.flop_counter import FlopCounterMode

from ...engine.device_prefetcher import Prefetcher
from ...engine.launch import prepare_train_config
from ...engine.launch import run as launch
from ...errors import message_for_user
from ...system.machine import describe_machine
from ...system.outputs import write_whole
from .meter import clock
from .setting import trains_mixed
from .training import MEASURED, SETTINGS

_COUNTED = 1
"""The step, from 0, whose floating-point operations are counted; it and those before it, which
compile and allocate, are not timed."""


class StepMeter(Hook):
    """Ends a training after a few steps, and times them: from the end of one to that of the next.

    So a step includes its data, wherever this process reads them, and all hooks.

    Args:
        num_steps: Steps that are timed at most.
        max_seconds: After which it ends, too.
    """

    priority = "LOWEST"

    def __init__(self, num_steps: int, max_seconds: float) -> None:
        self.num_steps, self.max_seconds = num_steps, max_seconds
        self.seconds: list[float] = []
        self.flops = 0
        self._clock = clock()

    def before_train(self, runner: Runner) -> None:
        """Take only so many batches, once more from the first if an epoch has fewer."""
        loop = runner.train_loop
        loop.dataloader = _Some(loop.dataloader, self)
        self._step, self._last = 0, 0.0

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Begin to count."""
        if self._step == _COUNTED:
            self._counter = FlopCounterMode(display=False)
            self._counter.__enter__()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Take the time."""
        now = self._clock()
        if self._step == _COUNTED:
            self._counter.__exit__(None, None, None)
            self.flops = self._counter.get_total_flops()
        elif self._step > _COUNTED:
            self.seconds.append(now - self._last)
        self._step += 1
        self._last = self._clock()

    @property
    def has_ended(self) -> bool:
        """Whether enough was timed."""
        return len(self.seconds) >= self.num_steps or sum(self.seconds) >= self.max_seconds

    def after_train_epoch(self, runner: Runner) -> None:
        """End."""
        runner.train_loop.stop_training = True


class _Some(Prefetcher):
    """A loader that ends with a meter, and begins anew where it ends before."""

    def __init__(self, loader: Any, meter: StepMeter) -> None:
        self.loader, self._meter = loader, meter

    def __iter__(self) -> Iterator[Any]:
        batches: Iterable[Any] = chain.from_iterable(repeat(self.loader))
        return takewhile(lambda _: not self._meter.has_ended, batches)


def measure(folder: Path) -> None:
    """Measure what the settings in ``folder`` name: seconds of the steps, operations of one."""
    settings = json.loads((folder / SETTINGS).read_text())
    methods = settings["methods"]
    turns: dict[str, list[list[float]]] = {key: [] for key in methods}
    flops: dict[str, int] = {}
    for number in range(settings["rounds"]):
        for key, method in methods.items():
            with TemporaryDirectory(dir=folder) as work_dir:
                options = {**method["options"], "default_hooks.checkpoint": None}
                cfg = prepare_train_config(
                    method["config"],
                    work_dir=work_dir,
                    amp=trains_mixed(),
                    cfg_options=options,
                )
                cfg.experiment_name = Path(work_dir).name  # mmengine's own ends in the second
                meter = StepMeter(settings["steps"], settings["seconds"])
                launch(cfg, "train", hooks=[meter])
            turns[key].append([round(value, 6) for value in meter.seconds])
            flops[key] = meter.flops
            told = f"{len(meter.seconds)} steps, median {1000 * median(meter.seconds):.0f} ms"
            print(f"turn {number + 1} of {settings['rounds']}: {key}, {told}", flush=True)
    measured = {
        "seconds": {key: median(chain(*values)) for key, values in turns.items()},
        "turns": turns,
        "flops": flops,
        "device": "CPU" if get_device() == "cpu" else "device",
        "machine": describe_machine(get_device()),
    }
    write_whole(folder / MEASURED, json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    try:
        measure(Path(sys.argv[1]))
    except Exception as error:
        text = message_for_user(error)
        if text is None:
            raise
        sys.exit(text)
