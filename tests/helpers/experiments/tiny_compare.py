"""A comparison of seconds: few images, short runs, and everything in this process."""

import csv
from pathlib import Path

from helpers.features.probe_folders import write_coco
from helpers.package.default_scope import own_default_scope
from matplotlib.figure import Figure

from mmssprl.experiments import report
from mmssprl.experiments.compare import pace, training
from mmssprl.experiments.compare import report as compare_report
from mmssprl.experiments.compare.start import Comparison
from mmssprl.experiments.options import CompareOptions
from mmssprl.experiments.run import Run, write_json

STEP_SECONDS = {"ssprl": 0.4, "swav": 0.1, "swav-small": 0.2, "supervised": 3.0}


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def cells(text):
    """The cells of all lines of tables in Markdown."""
    table = []
    for line in text.splitlines():
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.split("|")[1:-1]])
    return table


def comparison(work_dir, data, *, batch_size=8, log=lambda line: None, **changes):
    asked = {"methods": ["random", "swav"], "seeds": 2, "epochs": 1, "size": "scenes", "jobs": 1}
    asked |= {"work_dir": str(work_dir), "data": str(data), **changes}
    options = CompareOptions(**asked)
    return Comparison(options, batch_size=batch_size, command="python -m mmssprl compare", log=log)


def planned(work_dir, data, **changes):
    """A comparison that has claimed its work dir."""
    found = comparison(work_dir, data, **changes)
    found.plan()
    return found


def stay_in_process(monkeypatch):
    """Do the work of runs in this process, with short paces; return their folders."""
    works = {pace.__name__: pace.time_steps, training.__name__: training.train_and_probe}
    folders = []

    def run_commands(run, threads, gpus):
        [(_, _, module, folder)] = run.commands
        folders.append(Path(folder).name)
        with own_default_scope():
            works[module](Path(folder))

    monkeypatch.setattr(Run, "run_commands", run_commands)
    draw_nothing(monkeypatch)
    monkeypatch.setattr(pace, "ROUNDS", 1)
    monkeypatch.setattr(pace, "STEPS", 1)
    return folders


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
            seconds = {key: STEP_SECONDS[key] for key in run.inputs["methods"]}
            flops = {key: 10**9 * (3 if key == "ssprl" else 1) for key in seconds}
            values = {"seconds": seconds, "flops": flops, "passes": {}}
        else:
            epochs = run.settings["epochs"]
            values = {"mAP": score(run.settings), "chance_mAP": 0.1, "steps": 3 * epochs}
        write_json(run.measured_file, values)

    monkeypatch.setattr(Run, "run_commands", run_commands)
    return folders


def comparisons_in(folder):
    """Return a function that plans comparisons of 24 + 12 images in one work dir."""
    data = write_coco(folder)

    def compare(**changes):
        found = comparison(folder / "work", data, **{"seeds": 1, "epochs": 6, **changes})
        found.plan()
        return found

    compare.data = data
    compare.work_dir = folder / "work"
    return compare
