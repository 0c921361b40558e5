"""One run in its own process: pre-train, then probe. Started by ``start.Comparison``.

    python -m mmssprl.experiments.compare.training FOLDER

A stopped run resumes from its last checkpoint.
"""

import copy
import logging
import time
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from ...distillation import TeacherHook
from ...engine.initial_weights import apply_weights
from ...engine.stopwatch import work_ns
from ...engine.troubles import is_collapsed
from ...features.backbone import load_backbone
from ...features.extract import FeatureOptions
from ...models.unwrap import unwrap
from ...probing.data import read_masks
from ...probing.linear import score_features
from ...runs.train import train_in_process
from ...saving.checkpoint_checks import NotFiniteError
from ...system.environment import source_commit
from ...weights import RANDOM, Source, load_network
from ..run import MEASURED, SETTINGS, read_json, run_module, write_json
from .images import read_images
from .rows import read_row

_RANK = "effective_rank"
_SECONDS = "compare_seconds"


class Meter(Hook):
    """Draws the backbone as the row of random weights does, and measures the training.

    Equal seeds thus give equal backbones, whatever else a method's model draws. A config that names
    ``weights`` starts from these. Steps that a kill has undone do not count.
    """

    measured: dict[str, Any]

    def __init__(self, config: Config, seed: int) -> None:
        self.config = config
        self.seed = seed
        self._now = work_ns()

    def before_train(self, runner: Runner) -> None:
        """Draw the weights of a new run, and start the clock."""
        if runner.iter == 0 and Source.of(runner.cfg.get("weights")).is_random:
            drawn = load_network(RANDOM, self.config, seed=self.seed)
            unwrap(runner.model).backbone.load_state_dict(drawn.state_dict())
        self._start = self._now() / 1e9 - (runner.message_hub.get_info(_SECONDS) or 0.0)

    def after_train_epoch(self, runner: Runner) -> None:
        """Keep the time for the measurements."""
        runner.message_hub.update_info(_SECONDS, self._seconds())

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Keep the time in a checkpoint, which may be written inside an epoch."""
        checkpoint["message_hub"]["runtime_info"][_SECONDS] = self._seconds()

    def after_train(self, runner: Runner) -> None:
        """Collect the measurements."""
        per_epoch = len(runner.train_dataloader)
        last = {
            name.removeprefix("train/"): fmean(buffer.data[0][-per_epoch:])
            for name, buffer in runner.message_hub.log_scalars.items()
            if name.startswith("train/")
        }
        if _RANK in last:  # logged at some steps only: a mean would include earlier epochs
            last[_RANK] = float(runner.message_hub.get_scalar(f"train/{_RANK}").current())
        self.measured = {
            "steps": runner.iter,
            "images": runner.iter * runner.train_dataloader.batch_size,
            "seconds": runner.message_hub.get_info(_SECONDS)
            + sum(hook.seconds for hook in runner.hooks if isinstance(hook, TeacherHook)),
            "loss": last.get("loss"),
            "embedding_spread": last.get("embedding_spread"),
            "collapsed": is_collapsed(last),
        }

    def _seconds(self) -> float:
        return self._now() / 1e9 - self._start


def train_and_probe(folder: Path) -> None:
    """Do the run that the settings in ``folder`` describe, and write its measurements."""
    settings = read_json(folder / SETTINGS)
    trained = folder / "trained.json"
    cost: dict[str, Any] = {}
    weights = None
    if settings["trains"]:
        try:
            if not (trained.exists() and (folder / read_json(trained)["weights"]).exists()):
                write_json(trained, _train(folder, settings))
        except NotFiniteError:
            # Counts as the score of a constant; leaving out the worst runs would favour a method.
            score = _probe(RANDOM, settings)
            score |= {name: score[f"chance_{name}"] for name in ("mAP", "mIoU") if name in score}
            write_json(folder / MEASURED, {**score, "collapsed": True, "commit": source_commit()})
            return
        cost = read_json(trained)
        weights = str(folder / cost.pop("weights"))
    score = _probe(weights, settings)
    write_json(folder / MEASURED, {**score, **cost, "commit": source_commit()})
    for checkpoint in {*folder.glob("epoch_*.pth")} - {Path(weights or "")}:
        checkpoint.unlink()


def _probe(weights: str | None, settings: dict[str, Any]) -> dict[str, float]:
    """Return mAP of frozen features, mIoU if the images have masks, and a constant's.

    Without ``weights`` the features are of those that the row starts from.
    """
    config = read_row(settings)
    apply_weights(config, None)  # the training, too, has normalised as its start
    weights = weights or config.get("weights") or RANDOM
    model = load_backbone(weights, config, image_px=settings["image_px"], seed=settings["seed"])
    images = read_images(Path(settings["data"]), settings["split"])
    warn = partial(print_log, logger="current", level=logging.WARNING)
    options = FeatureOptions(progress=False, num_workers=0, log=warn)
    masks = read_masks(settings["data"], images, log=warn)
    result, _ = score_features(images, masks, model, options)
    found = {"mAP": result.mAP, "chance_mAP": result.chance_mAP}
    if result.dense is not None:
        found |= {"mIoU": result.dense.mIoU, "chance_mIoU": result.dense.chance_mIoU}
    return found


def _train(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    config = read_row(settings)
    meter = Meter(config, settings["seed"])
    resumes = any(not path.stem.endswith("_backbone") for path in folder.glob("*.pth"))
    name = f"{folder.name}_{time.time_ns()}"  # mmengine's is unique per second only
    cfg = train_in_process(
        copy.deepcopy(config),
        folder,
        amp=get_device() == "cuda",
        resume="auto" if resumes else None,
        overwrite=not resumes,
        cfg_options={**settings["options"], "experiment_name": name},
        hooks=[meter],
    )
    backbone = folder / f"{Path(config.filename).stem}_backbone.pth"
    last = folder / f"epoch_{cfg.train_cfg.max_epochs}.pth"
    return {**meter.measured, "weights": (backbone if backbone.exists() else last).name}


if __name__ == "__main__":
    run_module(train_and_probe)
