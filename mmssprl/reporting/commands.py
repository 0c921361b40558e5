"""What to do next, as commands that can be pasted in the folder of the run."""

import os
from pathlib import Path

from ..console.wording import command_line
from .run import PretrainingRun

_TARGETS = {"ResNet": "torchvision", "TimmBackbone": "timm"}
"""Who reads an export of a backbone, by its type; any other becomes a plain file."""


def next_commands(run: PretrainingRun, images: str, photograph: str) -> list[tuple[str, str]]:
    """Return what a run can be followed by, the most useful first: purpose and command of each.

    Args:
        run: The run.
        images: Where its images are.
        photograph: Path of one of its images.
    """
    images, photograph = _from(run, images), _from(run, photograph)
    found = []
    if not run.is_finished:
        words = ["pretrain", _from(run, run.images_root)]
        if not run.recipe:  # no run of `pretrain`
            words = ["train", Path(run.cfg.filename).name]
        found.append(("Go on with the training.", [*words, "--work-dir=.", "--resume"]))
    if run.weights is not None:
        weights = run.weights.name
        target = _TARGETS.get(run.cfg.model.backbone.type, "safetensors")
        found += [
            (
                "Train on your own labels. DATA has labels of COCO, VOC or YOLO, or a "
                "folder per class; other tasks are detect and segment.",
                ["finetune", weights, "DATA", "--task", "classify"],
            ),
            (
                "Score the frozen features by labels, beside those of random weights.",
                ["probe", weights, "random", _from(run, _probe_data(run) or "DATA")],
            ),
            ("Keep the features of all images.", ["embed", weights, images, "features.npz"]),
            (
                "Find the photographs that are nearest to one.",
                ["neighbors", weights, photograph, images, "--out", "neighbors.png"],
            ),
            ("Write the backbone for other programs.", ["export", weights, "--to", target]),
        ]
    return [(purpose, command_line(*words)) for purpose, words in found]


def _from(run: PretrainingRun, path: str) -> str:
    """Return a path as seen from the run: a page that is sent around tells no folders of others."""
    return os.path.relpath(path, run.work_dir) if os.path.isabs(path) else path


def _probe_data(run: PretrainingRun) -> str | None:
    hooks = run.cfg.get("custom_hooks") or []
    return next((hook["data"] for hook in hooks if hook.get("type") == "ProbeHook"), None)
