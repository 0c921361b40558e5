"""Probe the backbone during a pre-training, without influence on it."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner

from ..console.log_line import LogLine
from ..console.wording import wrapped
from ..datasets.labels import LabelledData
from ..datasets.subset import choose_subset
from ..engine.initial_weights import torchvision_depth
from ..errors import UserError, UserValueError, text_of
from ..features.backbone import FeatureBackbone, load_backbone
from ..features.extract import FeatureOptions
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..saving.checkpoint_hooks import backbone_file, deployed_model, save_backbone
from ..system.outputs import whole_file
from ..system.stopping import signals
from ..weights import RANDOM, SUPERVISED, WORDS, Source, has_supervised, read_checkpoint
from .data import LabelledSplit, ProbeData, find_probe_data, read_masks
from .halves import score_halves
from .intervals import Scored, half_widths
from .linear import score_features
from .probe_file import (
    LOST,
    START,
    TRAINED,
    Probe,
    best_of,
    probe_line,
    read_probes,
    write_probes,
)

MOST_IMAGES = 1000  # maximum number of images of each split
_NUM_FOLDS = 2
"""Instead of the five of ``probe``: half the time, nearly the same scores."""


@HOOKS.register_module()
class ProbeHook(Hook):
    """Score the backbone's features before, during and after a pre-training.

    The score is the one of ``probe``, with two folds. Before the training random and supervised
    weights are scored, too. Scores are written to ``<work_dir>/probe.csv``, and scores of the run
    also to the log as ``probe/...``. The backbone with the best score is written to
    ``<work_dir>/<config name>_best_backbone.pth``. The training is bit-equal to one without the
    hook. Rank 0 probes while the others wait.

    If the training continues from trained weights, the log has ``gain_over_start`` and
    ``gain_interval`` in points.

    Args:
        data: Labelled folder, see ``find_probe_data``. The best weights are chosen by its test
            images, so a fair score of them needs others. None scores the training images without
            labels, see ``score_halves``.
        interval: Epochs between two probes; None is a tenth of all. The last epoch is always
            probed.

    Raises:
        FileNotFoundError, ValueError: As ``find_probe_data`` or ``find_labels``; ``interval`` < 1.
    """

    priority = "LOW"

    def __init__(self, data: str | None = None, interval: int | None = None) -> None:
        if interval is not None and interval < 1:
            raise UserValueError(f"ProbeHook: interval must be at least 1, but got {interval}.")
        self.data: ProbeData | None = None
        self.masks: LabelledData | None = None
        if data is not None:
            found = find_probe_data(data)
            self.data = replace(
                found,
                train=part_of(found.train, MOST_IMAGES),
                test=part_of(found.test, MOST_IMAGES),
            )
            self.masks = read_masks(data, self.data)
        self.interval = interval
        self.probes: list[Probe] = []
        self._start: Scored | None = None  # scores of the initial weights

    def before_train(self, runner: Runner) -> None:
        """Score the initial weights, or read the probes of a resumed training."""
        self._file = Path(runner.work_dir) / "probe.csv"
        self._start_file = self._file.with_name("probe_start.pt")
        self.interval = self.interval or max(1, runner.max_epochs // 10)
        if not is_main_process():
            return

        if runner.iter:
            self._resume(runner.epoch)
            if self._start_file.is_file():
                self._start = Scored(**read_checkpoint(self._start_file))
            return

        start, *others = weights_before(runner.cfg)
        self._probe(runner, 0, start, self._features_of(unwrap(runner.model), runner))
        for name in others:
            try:
                model = load_backbone(name, runner.cfg)
            except UserError as error:  # such as a damaged file in torch's cache
                runner.logger.warning(f"{name} weights are not probed: {text_of(error)}")
                continue
            self._probe(runner, 0, name, model)

    def _resume(self, epoch: int) -> None:
        """Read the probes up to an epoch; later ones are made again."""
        found = read_probes(self._file)
        self.probes = [probe for probe in found if probe.epoch <= epoch]
        best = best_of(found)
        if best and best.epoch > epoch:  # its weights are in the file of the best ones
            self.probes = [p._replace(weights=LOST) if p.epoch else p for p in self.probes]

    def after_train_epoch(self, runner: Runner) -> None:
        """Score this epoch's weights if a probe is due."""
        epoch = runner.epoch + 1
        if epoch % self.interval and epoch != runner.max_epochs:
            return
        signals.saves()  # a signal waits for the first process, which probes
        if is_main_process():
            self._probe(runner, epoch, TRAINED, self._features_of(deployed_model(runner), runner))
            signals.progress()

    def after_train(self, runner: Runner) -> None:
        """Log which weights were the best."""
        best = best_of(self.probes)
        if is_main_process() and best:
            before = [probe for probe in self.probes if probe.epoch == 0]
            line = probe_line([*before, best])
            _log(runner, f"Best: {line}; its weights: {backbone_file(runner, 'best').name}")

    def _probe(self, runner: Runner, epoch: int, weights: str, model: FeatureBackbone) -> None:
        # Every loader draws a seed from the global generator.
        with torch.random.fork_rng(devices=[]):
            scores, of_images = self._score(runner, model)
        if not (epoch or self.probes):
            self._start = of_images
            with whole_file(self._start_file, "wb") as file:
                torch.save(of_images._asdict(), file)
        interval = None
        has_start = self.probes and not self.probes[0].epoch
        if epoch and has_start and self._start:
            [interval] = half_widths([of_images], self._start)
        probe = scores._replace(epoch=epoch, weights=weights, interval=interval)
        self.probes.append(probe)
        write_probes(self._file, self.probes)

        is_of_run = epoch or len(self.probes) == 1  # others are for comparison
        if is_of_run:
            self._log_scalars(runner, probe)
        _log(runner, probe_line(self.probes))
        if epoch and probe is best_of(self.probes):
            save_backbone(runner, "best")

    def _log_scalars(self, runner: Runner, probe: Probe) -> None:
        """Log the scores, and with the next lines the gain over trained weights."""
        for name in ("linear_mAP", "mIoU", "other_half"):
            if (value := getattr(probe, name)) is not None:
                runner.visualizer.add_scalar(f"probe/{name}", value, step=runner.iter)

        start = self.probes[0]
        if probe.interval is not None and start.weights != RANDOM:
            gain = probe.score - start.score
            runner.message_hub.update_scalar("train/gain_over_start", 100 * gain)
            runner.message_hub.update_scalar("train/gain_interval", 100 * probe.interval)

    def _score(self, runner: Runner, model: FeatureBackbone) -> tuple[Probe, Scored]:
        """Return a probe with only scores, and the scores of each test image."""
        device = next(unwrap(runner.model).parameters()).device
        options = FeatureOptions(
            device=device, progress=False, num_workers=0, log=runner.logger.warning
        )
        if self.data is None:
            images = runner.train_dataloader.dataset.sample((MOST_IMAGES + 1) // 2)
            scored = score_halves(model, images, options)
            return Probe(other_half=scored.values.mean().item()), scored

        found, scored = score_features(self.data, self.masks, model, options, num_folds=_NUM_FOLDS)
        mean_iou = found.dense.mIoU if found.dense else None
        return Probe(linear_mAP=found.mAP, mIoU=mean_iou), scored

    def _features_of(self, model: Any, runner: Runner) -> FeatureBackbone:
        return FeatureBackbone.of_config(model.backbone, runner.cfg)


def _log(runner: Runner, text: str) -> None:
    runner.logger.info(LogLine(text, wrapped(text)))


def part_of(split: LabelledSplit, most: int) -> LabelledSplit:
    """Return a fixed random subset of a split; larger subsets contain smaller ones."""
    num = len(split.paths)
    return split.take(choose_subset(range(num), min(1.0, most / num)), split.name)


def weights_before(cfg: Config) -> list[str]:
    """Return the weights to score before a training, first those that it starts from.

    Random weights are always scored, supervised ones of a ResNet if they are in torch's cache:
    nothing is downloaded. A user's own network may start from any weights, and is scored alone.
    """
    if "network" in cfg.model.backbone:
        return [START]
    is_given = cfg.get("load_from") or cfg.model.backbone.get("init_cfg")
    word = Source.of(cfg.get("weights")).word
    found = [START if is_given or word not in WORDS else word, RANDOM]
    with suppress(UserValueError):  # another network
        if has_supervised(torchvision_depth(cfg)):
            found.append(SUPERVISED)
    return list(dict.fromkeys(found))
