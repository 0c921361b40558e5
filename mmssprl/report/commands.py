"""What to do next, as commands that can be pasted in the folder of the run."""

import os
from pathlib import Path
from typing import NamedTuple

from ..console.wording import command_line
from .run import PretrainingRun

_TARGETS = {"ResNet": "torchvision", "TimmBackbone": "timm"}
"""Who reads an export of a backbone, by its type; any other becomes a plain file."""


class Command(NamedTuple):
    """A command and what it is for."""

    purpose: str
    line: str


def next_commands(run: PretrainingRun, images: str, photograph: str) -> list[Command]:
    """Return what a run can be followed by, the most useful first.

    Args:
        run: The run.
        images: Where its images are.
        photograph: Path of one of its images.
    """
    images, photograph = _from(run, images), _from(run, photograph)
    found = []
    if not run.is_finished:
        resume = command_line("pretrain", _from(run, run.images_root), "--work-dir=.", "--resume")
        if not run.recipe:  # no run of `pretrain`
            config = Path(run.cfg.filename).name
            resume = command_line("train", config, "--work-dir=.", "--resume")
        found.append(Command("Go on with the training.", resume))
    if run.weights is None:
        return found
    weights = run.weights.name
    target = _TARGETS.get(run.cfg.model.backbone.type, "safetensors")
    return [
        *found,
        Command(
            "Train on your own labels. DATA has labels of COCO, VOC or YOLO, or a folder per "
            "class; other tasks are detect and segment.",
            command_line("finetune", weights, "DATA", "--task", "classify"),
        ),
        Command(
            "Score the frozen features by labels, beside those of random weights.",
            command_line("probe", weights, "random", _from(run, _probe_data(run) or "DATA")),
        ),
        Command(
            "Keep the features of all images.",
            command_line("embed", weights, images, "features.npz"),
        ),
        Command(
            "Find the photographs that are nearest to one.",
            command_line("neighbors", weights, photograph, images, "--out", "neighbors.png"),
        ),
        Command(
            f"Write the backbone for {target}."
            if target != "safetensors"
            else "Write the backbone as a plain file without pickle.",
            command_line("export", weights, "--to", target),
        ),
    ]


def report_again() -> str:
    """Return the command that makes a run's report."""
    return command_line("report", ".")


def _from(run: PretrainingRun, path: str) -> str:
    """Return a path as seen from the run: a page that is sent around tells no folders of others."""
    return os.path.relpath(path, run.work_dir) if os.path.isabs(path) else path


def _probe_data(run: PretrainingRun) -> str | None:
    hooks = run.cfg.get("custom_hooks") or []
    return next((hook["data"] for hook in hooks if hook.get("type") == "ProbeHook"), None)
