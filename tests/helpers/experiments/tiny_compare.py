"""A comparison of seconds: few images, short runs, and everything in this process."""

import csv
import json
from pathlib import Path

from helpers.package.default_scope import own_default_scope
from matplotlib.figure import Figure

from mmssprl.experiments import report
from mmssprl.experiments.compare import pace, training
from mmssprl.experiments.compare import report as compare_report
from mmssprl.experiments.compare.pace import time_steps
from mmssprl.experiments.compare.start import Comparison
from mmssprl.experiments.options import CompareOptions
from mmssprl.experiments.run import Run
from mmssprl.system.outputs import write_whole

MODULES = {
    "mmssprl.experiments.compare.pace": time_steps,
    "mmssprl.experiments.compare.training": training.train_and_probe,
}


def stay_in_process(monkeypatch):
    """Do the work of runs in this process, with short paces; return their folders."""
    folders = []

    def run_commands(run, threads, gpus):
        [(_, _, module, folder)] = run.commands
        folders.append(Path(folder).name)
        with own_default_scope():
            MODULES[module](Path(folder))

    monkeypatch.setattr(Run, "run_commands", run_commands)
    draw_nothing(monkeypatch)
    monkeypatch.setattr(pace, "ROUNDS", 1)
    monkeypatch.setattr(pace, "STEPS", 1)
    return folders


def rows(path):
    """Read a CSV file."""
    with path.open() as file:
        return list(csv.DictReader(file))


def comparison(work_dir, data, *, batch_size=8, log=lambda line: None, **changes):
    values = {
        "work_dir": str(work_dir),
        "methods": ["random", "swav"],
        "seeds": 2,
        "data": str(data),
        "size": "scenes",
        "epochs": 1,
        "jobs": 1,
    }
    asked = CompareOptions(**{**values, **changes})
    return Comparison(asked, batch_size=batch_size, command="python -m mmssprl compare", log=log)


def draw_nothing(monkeypatch):
    """Leave the picture empty, which is drawn after each run."""
    monkeypatch.setattr(report, "write_figure", lambda path, figure: path.touch())
    monkeypatch.setattr(compare_report, "draw_panels", lambda *args: Figure())


def pretend(monkeypatch, score):
    """Let steps take ``STEP_SECONDS`` and ``score`` give the mAP of settings; returns folders."""
    draw_nothing(monkeypatch)
    folders = []

    def run_commands(run, threads, gpus):
        folders.append(f"{run.folder.parent.name}/{run.folder.name}")
        if run.folder.parent.name == "paces":
            keys = run.inputs["methods"]
            values = {
                "seconds": {key: STEP_SECONDS[key] for key in keys},
                "flops": {key: FLOPS.get(key, 10**9) for key in keys},
                "passes": {},
                "machine": "a machine",
            }
        else:
            values = {"mAP": score(run.settings), "chance_mAP": 0.1}
            epochs = run.settings["epochs"]
            if epochs:
                values |= {"steps": 3 * epochs, "images": 24 * epochs, "seconds": 1.0}
        write_whole(run.measured_file, json.dumps(values))

    monkeypatch.setattr(Run, "run_commands", run_commands)
    return folders


STEP_SECONDS = {"ssprl": 0.4, "swav": 0.1, "swav-small": 0.2, "supervised": 3.0}
FLOPS = {"ssprl": 3 * 10**9}
