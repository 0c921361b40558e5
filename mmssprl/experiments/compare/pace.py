"""How long a step of each method takes, measured in one go, and how much it computes.

    python -m mmssprl.experiments.compare.pace FOLDER

The methods take turns, so that whatever slows the machine down for a while slows them all.
"""

import json
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from mmengine.device import get_device

from ...engine.launch import prepare_train_config
from ...engine.launch import run as launch
from ...system.environment import describe_machine
from ...system.outputs import write_whole
from ...timing.stopwatch import LoadedSteps, work_ns
from ..run import MEASURED, SETTINGS
from .setting import trains_mixed
from .training import main


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
                watch = LoadedSteps(
                    least=1,
                    most=settings["steps"],
                    max_seconds=settings["seconds"],
                    now=work_ns(),
                    counts_flops=True,
                )
                launch(cfg, "train", hooks=[watch])
            turns[key].append([round(value, 6) for value in watch.seconds])
            flops[key] = watch.flops
            told = f"{len(watch.seconds)} steps, median {1000 * median(watch.seconds):.0f} ms"
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
    main(measure)
