"""A probe during a pre-training: labels tell whether features improve, and train nothing."""

import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

from ..console.log_line import LogLine
from ..console.tables import csv_table
from ..console.wording import percent, wrapped
from ..datasets.subset import choose_subset
from ..engine.initial_weights import torchvision_depth
from ..errors import UserError, UserValueError, text_of
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..saving.checkpoint_hooks import backbone_file, save_backbone
from ..system.outputs import write_whole
from ..weights import RANDOM, SUPERVISED, has_supervised
from .backbone import FeatureBackbone, load_backbone
from .extract import FeatureOptions
from .linear_classifier import fit_linear_probe, mean_average_precision
from .linear_probe import LabelledSplit, extract_split, find_probe_data
from .neighbor_search import knn_scores

START = "start"
"""Weights of a file that the training starts from."""
TRAINED = "trained"
_NAMES = {START: "before the training", RANDOM: "random weights", SUPERVISED: "supervised"}
MOST_IMAGES = 1000
"""Images of each split that are probed, if nobody says how many."""
_INTERVAL = "probe_interval"
"""What earlier versions chose, kept in the checkpoints of their runs."""
_SAMPLE = 128
"""Images of a split from which the time of a probe is estimated."""
_NUM_FOLDS = 2
"""In place of the five of ``probe``: the fit takes a half to a third of the time, and on 250
to 4,500 images of Corel5K with the features of three networks the linear mAP was lower in 3 of 12
cases, by at most 0.6 points, and the same or higher in the others."""


class Probe(NamedTuple):
    """One line of ``probe.csv``.

    Attributes:
        epoch: The epoch after which it was made, 0 being before the training.
        linear_mAP, knn_mAP: Scores in [0, 1].
        seconds: Time that it took.
        weights: TRAINED after an epoch; before the training START, RANDOM or SUPERVISED. The first
            line is of those that the training starts from, others of epoch 0 are for comparison.
    """

    epoch: int
    linear_mAP: float  # noqa: N815
    knn_mAP: float  # noqa: N815
    seconds: float
    weights: str


def read_probes(path: Path) -> list[Probe]:
    """Return the probes of a run's ``probe.csv``; none if there is no such file."""
    if not path.exists():
        return []
    probes = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            linear, knn, seconds = (float(row[name]) for name in Probe._fields[1:4])
            # The first runs name no weights.
            weights = row.get("weights") or (START if row["epoch"] == "0" else TRAINED)
            probes.append(Probe(int(row["epoch"]), linear, knn, seconds, weights))
    return probes


def of_the_run(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes of the run's own weights: those it starts from, and those it trained."""
    start = [probe for probe in probes if probe.epoch == 0][:1]
    return [*start, *(probe for probe in probes if probe.epoch)]


def for_comparison(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes of weights that the run neither starts from nor trains."""
    return [probe for probe in probes if probe.epoch == 0][1:]


def best_of(probes: Sequence[Probe]) -> Probe:
    """Return the probe with the highest linear mAP, of the trained weights if there is one."""
    own = of_the_run(probes)
    trained = [probe for probe in own if probe.epoch]
    return max(trained or own, key=lambda probe: probe.linear_mAP)


def describe(probes: Sequence[Probe]) -> str:
    """Return the last of the probes, at least one, beside those before the training."""
    last = probes[-1]
    scores = f"linear mAP {percent(last.linear_mAP)}, kNN {percent(last.knn_mAP)}"
    if last.epoch == 0:
        what = "before the training" if len(probes) == 1 else f"of {name_of(last)}"
        return f"Probe {what}: {scores} ({last.seconds:.0f} s)"
    head = f"Probe after epoch {last.epoch}: {scores}"
    before = [probe for probe in probes if probe.epoch == 0]
    both = [f"{_NAMES[p.weights]} {percent(p.linear_mAP)}, {percent(p.knn_mAP)}" for p in before]
    return f"{'; '.join([head, *both])} ({last.seconds:.0f} s)"


def describe_best(probes: Sequence[Probe], file: str) -> str:
    """Say which weights a run keeps in a file as its best, beside those before the training."""
    best = best_of(probes)
    before = [f"{_NAMES[p.weights]} {percent(p.linear_mAP)}" for p in probes if p.epoch == 0]
    scores = "; ".join([f"linear mAP {percent(best.linear_mAP)}", *before])
    return f"best probe: after epoch {best.epoch}, {scores}; its weights: {file}"


def name_of(probe: Probe) -> str:
    """Return the weights of a probe before the training in words: 'supervised weights'."""
    return f"{probe.weights} weights"


@HOOKS.register_module()
class ProbeHook(Hook):
    """Score the backbone's features on labelled images, before, during and after a pre-training.

    A linear classifier (as of ``probe``, but with two folds) and the nearest neighbours are
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
        interval: Epochs between two probes; None takes a tenth of all. The last epoch is always
            probed.
        image_px: Side of the centre crops; None takes the layout's ``image_px``.
        max_images: Most images of each split; of more a fixed random part is taken. None takes
            1,000, so 2,000 in all.
        num_workers: Processes that read images.
        class_folders: Take a folder per class, whatever other files lie in ``data``.

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
        class_folders: bool = False,
    ) -> None:
        for name, value in (("interval", interval), ("max_images", max_images)):
            if value is not None and value < 1:
                raise UserValueError(f"ProbeHook: {name} must be at least 1, but got {value}.")
        found = find_probe_data(data, class_folders=class_folders)
        labelled = (found.train, found.test)
        self.splits = [part_of(split, max_images or MOST_IMAGES) for split in labelled]
        self.interval = interval
        self.image_px = image_px
        self.num_workers = num_workers
        self.probes: list[Probe] = []

    def before_train(self, runner: Runner) -> None:
        """Score the weights that the training starts from, or read what a resumed one has."""
        self._file = Path(runner.work_dir) / "probe.csv"
        if self.interval is None:
            chosen = probe_interval(runner.max_epochs)
            self.interval = runner.message_hub.get_info(_INTERVAL, chosen)
        if not is_main_process():
            return
        if runner.iter:
            # Of what was done after the checkpoint nothing counts.
            self.probes = [p for p in read_probes(self._file) if p.epoch <= runner.epoch]
            return
        start, *others = weights_before(runner.cfg)
        self._probe(runner, 0, start, self._model(runner))
        for name in others:
            try:
                model = load_backbone(name, runner.cfg, image_px=self.image_px)
            except UserError as error:  # such as a damaged file in torch's cache
                runner.logger.warning(f"{name} weights are not probed: {text_of(error)}")
                continue
            self._probe(runner, 0, name, model)

    def after_train_epoch(self, runner: Runner) -> None:
        """Score this epoch's weights if it is their turn."""
        if not is_main_process():
            return
        epoch = runner.epoch + 1
        if epoch % self.interval == 0 or epoch == runner.max_epochs:
            self._probe(runner, epoch, TRAINED, self._model(runner))

    def after_train(self, runner: Runner) -> None:
        """Say which weights were the best."""
        if is_main_process() and any(probe.epoch for probe in self.probes):
            file = backbone_file(runner, "best").name
            _tell(runner, describe_best(self.probes, file))

    def _probe(self, runner: Runner, epoch: int, weights: str, model: FeatureBackbone) -> None:
        start = time.perf_counter()
        # A loader takes a seed of the global generator, even one without processes.
        with torch.random.fork_rng(devices=[]):
            (train_x, train_y), (test_x, test_y) = self._features(runner, model, self.splits)
            classifier = fit_linear_probe(train_x, train_y, num_folds=_NUM_FOLDS)
            linear = mean_average_precision(classifier(test_x), test_y)[0]
            knn = mean_average_precision(
                knn_scores(train_x.cpu(), train_y.cpu(), test_x.cpu()), test_y
            )[0]
        found = Probe(epoch, linear, knn, time.perf_counter() - start, weights)
        self.probes.append(found)
        write_whole(self._file, csv_table(Probe._fields, self.probes))
        if found in of_the_run(self.probes):
            for name, value in (("linear_mAP", linear), ("knn_mAP", knn)):
                runner.visualizer.add_scalar(f"probe/{name}", value, step=runner.iter)
        _tell(runner, describe(self.probes))
        if epoch and found is best_of(self.probes):
            save_backbone(unwrap(runner.model).backbone, backbone_file(runner, "best"))

    def estimate(self, runner: Runner) -> float:
        """Estimate the seconds of a probe from one of few images.

        Reading and forwards take a time in proportion to the images. The classifier's with few
        counts as it is: with more images it needs fewer iterations.
        """
        start = time.perf_counter()
        parts = [part_of(split, _SAMPLE) for split in self.splits]
        (features, labels), _ = self._features(runner, self._model(runner), parts)
        num_images = [sum(len(split.paths) for split in each) for each in (self.splits, parts)]
        reading_s = (time.perf_counter() - start) * num_images[0] / num_images[1]
        if not (labels == 1).any():  # without, nothing could be fitted
            labels[::2] = 1
        start = time.perf_counter()
        fit_linear_probe(features, labels, num_folds=_NUM_FOLDS)
        return reading_s + time.perf_counter() - start

    def _model(self, runner: Runner) -> FeatureBackbone:
        backbone = unwrap(runner.model).backbone
        return FeatureBackbone.of_config(backbone, runner.cfg, image_px=self.image_px)

    def _features(
        self, runner: Runner, model: FeatureBackbone, splits: Sequence[LabelledSplit]
    ) -> list[tuple[Tensor, Tensor]]:
        """Return features and labels of each split, on the device of the run's model."""
        device = next(unwrap(runner.model).parameters()).device
        options = FeatureOptions(num_workers=self.num_workers, device=device, progress=False)
        found = [extract_split(model, each, options, log=runner.logger.warning) for each in splits]
        return [(features.to(device), labels.to(device)) for features, labels in found]


def _tell(runner: Runner, text: str) -> None:
    runner.logger.info(LogLine(text, wrapped(text)))


def probe_interval(epochs: int) -> int:
    """Return the epochs between two probes: a tenth of all, at least one."""
    return max(1, epochs // 10)


def part_of(split: LabelledSplit, most: int) -> LabelledSplit:
    """Return a fixed random part of a split; a smaller one lies within each larger one."""
    num = len(split.paths)
    if num <= most:
        return split
    indices = choose_subset(range(num), most / num)
    return LabelledSplit(split.name, [split.paths[i] for i in indices], split.labels[indices])


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
