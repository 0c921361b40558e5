"""One run in a process of its own: pre-train, then probe. Started by ``run.PretrainRun``.

    python -m mmssprl.experiments.compare.training FOLDER

The folder holds ``settings.json``; what was measured is written into ``measured.json`` there. A run
that was stopped goes on from its last checkpoint; one whose weights are gone, as of a folder that
was copied without them, begins anew.
"""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor

from ...engine.launch import prepare_train_config
from ...engine.launch import run as launch
from ...errors import message_for_user
from ...features.average_precision import mean_average_precision
from ...features.backbone import choose_device, load_backbone
from ...features.extract import FeatureOptions
from ...features.linear_classifier import fit_linear_probe
from ...features.probe_data import extract_split
from ...saving.finiteness import NotFiniteError
from ...system.environment import source_commit
from ...system.outputs import write_whole
from ...weights import RANDOM
from .images import Split, read_images
from .meter import Meter
from .setting import trains_mixed

SETTINGS, TRAINED, MEASURED = "settings.json", "trained.json", "measured.json"


def train_and_probe(folder: Path) -> None:
    """Do what the settings in ``folder`` say, and write what was measured beside them."""
    settings = json.loads((folder / SETTINGS).read_text())
    cost: dict[str, Any] = {}
    weights = RANDOM
    if settings["trains"]:
        try:
            if not _is_trained(folder):
                _write(folder / TRAINED, _train(folder, settings))
        except NotFiniteError:
            # It counts, at the score of a constant: else the worst runs of a method were left out.
            nothing = _score_nothing(Path(settings["data"]), split=settings["split"])
            _write(folder / MEASURED, {**nothing, "collapsed": True, "commit": source_commit()})
            return
        cost = json.loads((folder / TRAINED).read_text())
        weights = str(folder / cost.pop("weights"))
    score = probe(
        weights,
        Path(settings["config"]),
        Path(settings["data"]),
        image_px=settings["image_px"],
        weights_seed=settings["seed"],
        split=settings["split"],
    )
    _write(folder / MEASURED, {**score, **cost, "commit": source_commit()})
    for checkpoint in folder.glob("epoch_*.pth"):
        if checkpoint.name != Path(weights).name:
            checkpoint.unlink()


def probe(
    weights: str,
    config: Path,
    data: Path,
    *,
    split: Split,
    image_px: int,
    weights_seed: int,
) -> dict[str, Any]:
    """Score frozen features as ``features.probe`` does.

    Args:
        weights: Weights file, training checkpoint, or 'random'.
        config: With ``model.backbone``.
        data: Folder of the labelled images.
        split: Which images score, see ``read_images``.
        image_px: Side of the centre crops.
        weights_seed: Of random weights.

    Returns:
        ``mAP`` and ``chance_mAP`` in [0, 1].
    """
    device = choose_device("auto")
    model = load_backbone(weights, config, image_px=image_px, seed=weights_seed)
    images = read_images(data, split)
    (train_x, train_y), (test_x, test_y) = (
        extract_split(model, each, FeatureOptions(progress=False), log=_warn)
        for each in (images.train, images.test)
    )
    classifier = fit_linear_probe(train_x.to(device), train_y.to(device))
    score, _ = mean_average_precision(classifier(test_x.to(device)), test_y)
    return {"mAP": score, "chance_mAP": _chance(test_y)}


def _warn(line: str) -> None:
    print_log(line, logger="current", level=logging.WARNING)


def _score_nothing(data: Path, *, split: Split) -> dict[str, Any]:
    """Return what ``probe`` would of features that tell nothing: the score of a constant."""
    chance = _chance(read_images(data, split).test.labels)
    return {"mAP": chance, "chance_mAP": chance}


def _chance(labels: Tensor) -> float:
    return mean_average_precision(torch.zeros_like(labels, dtype=torch.float32), labels)[0]


def _is_trained(folder: Path) -> bool:
    file = folder / TRAINED
    return file.exists() and (folder / json.loads(file.read_text())["weights"]).exists()


def _train(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    config = Path(settings["config"])
    goes_on = any(not path.stem.endswith("_backbone") for path in folder.glob("*.pth"))
    cfg = prepare_train_config(
        config,
        work_dir=folder,
        resume="auto" if goes_on else None,
        overwrite=not goes_on,
        amp=trains_mixed(),
        cfg_options=settings["options"],
    )
    cfg.experiment_name = f"{folder.name}_{time.time_ns()}"  # mmengine's own ends in the second
    meter = Meter(config, settings["seed"])
    launch(cfg, "train", overwrite=not goes_on, hooks=[meter])
    backbone = folder / f"{config.stem}_backbone.pth"
    last = folder / f"epoch_{cfg.train_cfg.max_epochs}.pth"
    return {**meter.measured, "weights": (backbone if backbone.exists() else last).name}


def _write(path: Path, values: dict[str, Any]) -> None:
    write_whole(path, json.dumps(values, indent=2) + "\n")


def main(folder: Path) -> None:
    """Do the run; a mistake of the user ends the process with one line, a bug with a traceback."""
    try:
        train_and_probe(folder)
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(message)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
