"""A probe during a pre-training: labels tell whether features improve, and train nothing."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

from ..engine.hooks.pretrain_checkpoint_hook import backbone_file, save_backbone
from ..engine.initial_weights import torchvision_depth
from ..engine.log_line import LogLine
from ..engine.unwrap import unwrap
from ..errors import UserError, UserValueError, text_of
from ..registry import HOOKS
from ..weights import RANDOM, SUPERVISED, has_supervised
from ..wording import counted, wrapped
from .average_precision import mean_average_precision
from .features import LabelledImages, extract_features
from .frozen_backbone import FrozenBackbone, as_frozen, frozen_backbone
from .linear_classifier import fit_linear_probe
from .nearest_neighbors import knn_scores
from .probe_data import LabelledSplit, find_probe_data
from .probe_record import (
    START,
    TRAINED,
    Probe,
    best_of,
    describe,
    describe_best,
    of_the_run,
    read_probes,
    write_probes,
)
from .probe_share import MOST_IMAGES, ProbePace, choose_interval, least_images, part_of, share_of

_INTERVAL = "probe_interval"
_SAMPLE = 64
"""Images of a split from which the time of a probe is estimated."""
_NUM_FOLDS = 2
"""In place of the five of ``linear_probe``: the fit takes a half to a third of the time, and on 250
to 4,500 images of Corel5K with the features of three networks the linear mAP was lower in 3 of 12
cases, by at most 0.6 points, and the same or higher in the others."""


@HOOKS.register_module()
class ProbeHook(Hook):
    """Score the frozen backbone on labelled images, before, during and after a pre-training.

    A linear classifier (as of ``linear_probe``, but with two folds) and the nearest neighbours are
    fitted on the training images of the data and scored on its test images, by mAP. Before the
    training other weights are scored too, for comparison, see ``weights_before``. All scores are
    kept in ``<work_dir>/probe.csv``, those of the run's own weights logged as ``probe/...``; the
    backbone with the best linear score is written to
    ``<work_dir>/<config name>_best_backbone.pth``. The training goes on bit by bit as without the
    hook. One process probes, the others wait for it in their next step. Unreadable images are left
    out, as the training replaces them.

    Args:
        data: Labelled folder, see ``find_probe_data``. Whoever takes the best weights has chosen by
            its test images: an honest figure needs others.
        interval: Epochs between two probes; None chooses, by the times of the first probes and of
            the first epoch, so that all take 1.5 % of the time unless the first and the last alone
            take more, see ``choose_interval``. The last epoch is always probed.
        image_px: Side of the centre crops; None takes the layout's ``image_px``.
        max_images: Of each split; of more ones a fixed random part is taken. None takes 5,000;
            ``pretrain`` writes fewer here where all probes would take more than 1.5 % of the time.
        num_workers: Processes that read images.

    Raises:
        FileNotFoundError, ValueError: Data that ``find_probe_data`` refuses, or numbers below 1.
    """

    priority = "LOW"

    def __init__(
        self,
        data: str,
        interval: int | None = None,
        image_px: int | None = None,
        max_images: int | None = None,
        num_workers: int = 0,
    ) -> None:
        for name, value in (("interval", interval), ("max_images", max_images)):
            if value is not None and value < 1:
                raise UserValueError(f"ProbeHook: {name} must be at least 1, but got {value}.")
        found = find_probe_data(data, class_folders=True)
        self.labelled = (found.train, found.test)
        self.num_labelled = sum(len(split.paths) for split in self.labelled)
        self.max_images = max_images
        self.splits = [part_of(split, max_images or MOST_IMAGES) for split in self.labelled]
        self.interval = interval
        self.image_px = image_px
        self.num_workers = num_workers
        self.probes: list[Probe] = []

    def before_train(self, runner: Runner) -> None:
        """Score the weights that the training starts from, or read what a resumed one has."""
        self._file = Path(runner.work_dir) / "probe.csv"
        if self.interval is None:
            self.interval = runner.message_hub.get_info(_INTERVAL, None)
        if is_main_process():
            if runner.iter:
                # Of what was done after the checkpoint nothing counts.
                self.probes = [p for p in read_probes(self._file) if p.epoch <= runner.epoch]
            else:
                self._probe_before(runner)
        self._start, self._first_step = time.perf_counter(), runner.iter

    def after_train_epoch(self, runner: Runner) -> None:
        """Score this epoch's weights if it is their turn."""
        if not is_main_process():
            return
        epoch = runner.epoch + 1
        if self.interval is None:
            # A run that was stopped within its first epoch has seen a part of it.
            step_s = (time.perf_counter() - self._start) / max(1, runner.iter - self._first_step)
            self._choose_interval(runner, step_s * len(runner.train_dataloader))
        if epoch % self.interval == 0 or epoch == runner.max_epochs:
            self._probe(runner, epoch, TRAINED, self._frozen(runner))

    def after_train(self, runner: Runner) -> None:
        """Say which weights were the best."""
        if is_main_process() and any(probe.epoch for probe in self.probes):
            file = backbone_file(runner, "best").name
            text = describe_best(self.probes, file, self._images)
            runner.logger.info(LogLine(text, wrapped(text)))

    def _choose_interval(self, runner: Runner, epoch_s: float) -> None:
        epochs, spent_s = runner.max_epochs, sum(probe.seconds for probe in self.probes)
        probe_s = self.probes[-1].seconds if self.probes else 0.0
        self.interval = choose_interval(probe_s, epoch_s, epochs, spent_s)
        runner.message_hub.update_info(_INTERVAL, self.interval)
        how_often = (
            f"every {counted(self.interval, 'epoch')}" if self.interval > 1 else "every epoch"
        )
        if self.interval >= epochs:
            how_often = "once more, at the end"
        share = share_of(spent_s + -(-epochs // self.interval) * probe_s, epoch_s, epochs)
        text = f"Features are probed {how_often}; all probes take {100 * share:.1f} % of the time."
        runner.logger.info(LogLine(text, text))

    def _probe_before(self, runner: Runner) -> None:
        start, *others = weights_before(runner.cfg)
        self._probe(runner, 0, start, self._frozen(runner))
        for name in others:
            try:
                frozen = frozen_backbone(name, runner.cfg, image_px=self.image_px)
            except UserError as error:  # such as a damaged file in torch's cache
                runner.logger.warning(f"{name} weights are not probed: {text_of(error)}")
                continue
            self._probe(runner, 0, name, frozen)

    def _probe(self, runner: Runner, epoch: int, weights: str, frozen: FrozenBackbone) -> None:
        start = time.perf_counter()
        # Of the global generator a loader takes a seed, even one without processes.
        with torch.random.fork_rng(devices=[]):
            linear, knn = self._scores(runner, frozen)
        found = Probe(epoch, linear, knn, time.perf_counter() - start, weights)
        self.probes.append(found)
        write_probes(self._file, self.probes)
        if found in of_the_run(self.probes):
            for name, value in (("linear_mAP", linear), ("knn_mAP", knn)):
                runner.visualizer.add_scalar(f"probe/{name}", value, step=runner.iter)
        runner.logger.info(LogLine(*describe(self.probes, self._images)))
        if epoch and found is best_of(self.probes):
            save_backbone(unwrap(runner.model).backbone, backbone_file(runner, "best"))

    def pace(self, runner: Runner) -> ProbePace:
        """Estimate the time of a probe from some of its images.

        Reading them takes a time in proportion to their number. The classifier is fitted on as many
        features as a probe has at least and at most: repeated ones with noise of their own standard
        deviation, so that the classes separate about as badly as real ones do.
        """
        start = time.perf_counter()
        parts = [part_of(split, _SAMPLE) for split in self.splits]
        sample = self._features(runner, self._frozen(runner), parts)
        image_s = (time.perf_counter() - start) / sum(len(part.paths) for part in parts)
        sizes = [len(split.paths) for split in self.splits]
        least = self.max_images or min(least_images(self.labelled), MOST_IMAGES)
        few = [min(size, least) for size in sizes]
        # The fewest first: what a device does once belongs to the fixed part.
        fit_s = self._fit_s(runner, sample, few)
        if sum(few) < sum(sizes):
            more_s = max(0.0, self._fit_s(runner, sample, sizes) - fit_s)
            image_fit_s = more_s / (sum(sizes) - sum(few))
            image_s += image_fit_s
            fit_s -= image_fit_s * sum(few)
        num_first = len(weights_before(runner.cfg))
        return ProbePace(fit_s, image_s, self.num_labelled, tuple(sizes), least, num_first)

    def _fit_s(
        self, runner: Runner, sample: Sequence[tuple[Tensor, Tensor]], sizes: Sequence[int]
    ) -> float:
        pairs: list[Tensor] = []
        generator = torch.Generator().manual_seed(0)
        for (features, labels), size in zip(sample, sizes, strict=True):
            if not (labels == 1).any():  # without, no score could be computed
                labels = torch.ones_like(labels)
                labels[1::2] = 0
            repeated = torch.arange(size) % len(features)
            noise = torch.randn(size, features.shape[1], generator=generator)
            noise *= features.std(dim=0, correction=0)
            pairs += [features[repeated] + noise, labels[repeated]]
        start = time.perf_counter()
        self._score(runner, *pairs)
        return time.perf_counter() - start

    @property
    def _images(self) -> str:
        num = sum(len(split.paths) for split in self.splits)
        return f"{num:,} of {self.num_labelled:,} images" if num < self.num_labelled else ""

    def _frozen(self, runner: Runner) -> FrozenBackbone:
        return as_frozen(unwrap(runner.model).backbone, runner.cfg, image_px=self.image_px)

    def _scores(self, runner: Runner, frozen: FrozenBackbone) -> tuple[float, float]:
        (train_x, train_y), (test_x, test_y) = self._features(runner, frozen, self.splits)
        num_bad = sum(len(split.paths) for split in self.splits) - len(train_x) - len(test_x)
        if num_bad:
            runner.logger.warning(f"{num_bad} images of the probe cannot be read and are left out.")
        return self._score(runner, train_x, train_y, test_x, test_y)

    def _features(
        self, runner: Runner, frozen: FrozenBackbone, splits: Sequence[LabelledSplit]
    ) -> list[tuple[Tensor, Tensor]]:
        return [
            extract_features(
                frozen,
                LabelledImages(split.paths, split.labels, frozen.image_px),
                mean=frozen.mean,
                std=frozen.std,
                num_workers=self.num_workers,
                device=next(unwrap(runner.model).parameters()).device,
                progress=False,
                leave_out_unreadable=True,
            )
            for split in splits
        ]

    def _score(
        self, runner: Runner, train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor
    ) -> tuple[float, float]:
        device = next(unwrap(runner.model).parameters()).device
        classifier = fit_linear_probe(train_x.to(device), train_y.to(device), num_folds=_NUM_FOLDS)
        linear = mean_average_precision(classifier(test_x.to(device)), test_y)[0]
        return linear, mean_average_precision(knn_scores(train_x, train_y, test_x), test_y)[0]


def weights_before(cfg: Config) -> list[str]:
    """Return the weights that are scored before a training, those first that it starts from.

    Random ones always are, and for a ResNet of torchvision's its supervised ones, if they are in
    torch's cache: nothing is downloaded for it.
    """
    is_given = cfg.get("load_from") or cfg.model.backbone.get("init_cfg")
    start = START if is_given else cfg.get("weights") or RANDOM
    if start not in (RANDOM, SUPERVISED):
        start = START
    try:
        is_here = has_supervised(torchvision_depth(cfg))
    except UserValueError:  # another network
        is_here = False
    return list(dict.fromkeys([start, RANDOM, *[SUPERVISED] * is_here]))
