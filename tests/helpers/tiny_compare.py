"""A comparison of seconds: few images, short runs, and everything in this process."""

import gc
from pathlib import Path

from default_scope import own_default_scope
from mmengine.config import Config

from mmssprl.compare import paces, training
from mmssprl.compare.pace import measure
from mmssprl.compare.start import Request
from mmssprl.runs.commands import CommandRun

MODULES = {
    "mmssprl.compare.pace": measure,
    "mmssprl.compare.training": training.train_and_probe,
}


def stay_in_process(monkeypatch):
    """Let runs do their work in this process, and measure short paces; returns their folders."""
    folders = []

    def work(run, needed, threads):
        [(_, _, module, folder)] = run.commands
        folders.append(Path(folder).name)
        with own_default_scope():
            MODULES[module](Path(folder))
        return {}

    monkeypatch.setattr(CommandRun, "work", work)
    # What mmengine does for every runner and data set takes longer than so short a training.
    monkeypatch.setattr(Config, "pretty_text", "")
    monkeypatch.setattr(gc, "collect", lambda *args: 0)
    monkeypatch.setattr(paces, "ROUNDS", 1)
    monkeypatch.setattr(paces, "STEPS", 1)
    return folders


def request(work_dir, data, **changes):
    values = {
        "work_dir": work_dir,
        "words": ["random", "swav"],
        "reference": "ssprl",
        "num_seeds": 2,
        "budgets": ("epochs", "time"),
        "data": data,
        "size": "scenes",
        "epochs": 1,
        "batch_size": 8,
        "command": "python -m mmssprl compare",
    }
    return Request(**{**values, **changes})
