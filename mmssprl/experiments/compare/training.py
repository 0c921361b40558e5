"""One run in a process of its own: pre-train, then probe. Started by ``run.PretrainRun``.

    python -m mmssprl.experiments.compare.training FOLDER

The folder holds ``settings.json``; what was measured is written into ``measured.json`` there. A run
that was stopped goes on from its last checkpoint; one whose weights are gone, as of a folder that
was copied without them, begins anew.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from ...engine.launch import prepare_train_config
from ...engine.launch import run as launch
from ...errors import message_for_user
from ...saving.finiteness import NotFiniteError
from ...system.environment import source_commit
from ...system.outputs import write_whole
from ...weights import RANDOM
from .meter import Meter
from .probing import probe, score_nothing
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
            nothing = score_nothing(Path(settings["data"]), split=settings["split"])
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
