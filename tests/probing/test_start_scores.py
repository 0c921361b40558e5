"""Scores without labels, and intervals of gains, also in resumed runs."""

import re

import numpy as np
import pytest
import torch
from helpers.saving.stopped_runs import assert_equal_runs, train, write_pretraining
from mmengine.config import Config
from mmengine.hooks import Hook
from PIL import Image

from mmssprl.engine.troubles import TROUBLES, diagnose
from mmssprl.models.unwrap import unwrap
from mmssprl.probing import mean_average_precision
from mmssprl.probing.intervals import Scored, half_widths
from mmssprl.probing.probe_file import Probe, probe_line, propose, read_probes, write_probes
from mmssprl.weights import load_network

NUM = 12
CURE = TROUBLES["worse_than_start"].cure


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of one colour each, with noise."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(NUM):
        pixels = rng.integers(0, 25, (40, 48, 3)) + rng.integers(0, 230, 3)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02}.png")
    return folder


def test_the_map_of_a_draw_is_that_of_its_rows():
    generator = torch.Generator().manual_seed(3)
    labels = (torch.rand(60, 3, generator=generator) < 0.3).to(torch.int8)
    labels[::7, 1] = -1
    found = Scored(torch.randn(60, 3, generator=generator), labels)
    draws = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), 4)
    counts = torch.from_numpy(np.vstack([np.ones((1, 60)), draws])).double()
    for count, score in zip(counts, found.means(counts), strict=True):
        rows = torch.arange(60).repeat_interleave(count.long())
        expected = mean_average_precision(found.values[rows], labels[rows])[0]
        assert score.item() == pytest.approx(expected, abs=1e-9)


def test_the_interval_of_a_better_map_is_narrow():
    generator = torch.Generator().manual_seed(3)
    labels = (torch.rand(60, 3, generator=generator) < 0.3).to(torch.int8)
    found = Scored(torch.randn(60, 3, generator=generator), labels)
    [width] = half_widths([found._replace(values=found.values + labels)], found)
    assert 0 < width < 0.2


def test_the_interval_of_hits_is_that_of_their_paired_differences():
    generator = torch.Generator().manual_seed(1)
    start, now = ((torch.rand(400, generator=generator) < 0.5).double() for _ in range(2))
    [width, of_itself] = half_widths([Scored(now), Scored(start)], Scored(start))
    assert width == pytest.approx(1.96 * (now - start).std().item() / 20, rel=0.1)
    assert of_itself == 0
    assert half_widths([Scored(now)], Scored(start[1:])) == [None]


def test_scores_of_corrected_labels_have_no_interval():
    scores = torch.rand(8, 2)
    labels = torch.tensor([[1, 0], [0, 1]] * 4)
    assert half_widths([Scored(scores, labels.flip(0))], Scored(scores, labels)) == [None]


class Spoil(Hook):
    """Makes all features alike after an epoch."""

    def after_train_iter(self, runner, *args, **kwargs):
        if runner.iter >= NUM // 2:
            unwrap(runner.model).backbone.bn1.weight.data.zero_()
            unwrap(runner.model).backbone.bn1.bias.data.zero_()


@pytest.fixture(scope="module")
def spoiled(photos, tmp_path_factory):
    """Work dirs of a run from weights that gets worse: uninterrupted, and stopped once."""
    folder = tmp_path_factory.mktemp("spoiled")
    config = write_pretraining(folder)
    start = folder / "start.pth"
    torch.save(load_network("random", Config.fromfile(config), seed=1).state_dict(), start)
    hooks = [{"type": name} for name in ("PretrainHook", "MonitorHook", "ContinuationHook")]
    hooks[2]["heads_first"] = 0
    options = {
        "custom_hooks": [*hooks, {"type": "ProbeHook", "interval": 1}],
        "weights": str(start),
        "train_dataloader.dataset.data_root": str(photos),
        "train_cfg.max_epochs": 4,
    }
    for name, stops in (("whole", ()), ("cut", (8,))):
        train(config, folder / name, stops=stops, options=options, hooks=(Spoil(),))
    return folder / "whole", folder / "cut"


def test_initial_weights_are_probed_first_then_each_epoch(spoiled):
    probes = read_probes(spoiled[0] / "probe.csv")
    names = [(0, "start"), (0, "random"), *((epoch, "trained") for epoch in (1, 2, 3, 4))]
    assert [(p.epoch, p.weights) for p in probes] == names
    assert [p.interval is None for p in probes] == [True] * 2 + [False] * 4


def test_features_that_are_all_alike_find_one_other_half(spoiled):
    probes = read_probes(spoiled[0] / "probe.csv")
    assert probes[0].other_half > 0.5
    assert probes[-1].other_half == pytest.approx(1 / NUM)


def test_scores_without_labels_have_their_own_columns(spoiled):
    text = (spoiled[0] / "probe.csv").read_text()
    assert text.startswith("epoch,weights,other_half,interval\n")


def test_a_run_that_is_worse_than_its_start_is_named(spoiled):
    [log] = spoiled[0].glob("*/*.log")
    [line] = [each for each in log.read_text().splitlines() if CURE in each]
    assert "points over the weights that" in line
    assert "worse than its start" in line
    assert diagnose(spoiled[0]).verdict in TROUBLES


def test_the_best_weights_of_a_run_that_gets_worse_are_kept(spoiled):
    [log] = spoiled[0].glob("*/*.log")
    said = r"Best: Probe after .*; its\s+weights: stopped_best_backbone"
    assert re.search(said, log.read_text())
    best = torch.load(spoiled[0] / "stopped_best_backbone.pth", weights_only=True)
    assert best["bn1.weight"].any()


def test_a_stopped_run_has_the_probes_of_an_uninterrupted_one(spoiled):
    whole, cut = spoiled
    assert read_probes(cut / "probe.csv") == read_probes(whole / "probe.csv")
    assert_equal_runs(cut, whole, "epoch_4.pth")


RANDOM = Probe(0, 0.221, "random", 0.1)
SUPERVISED = Probe(0, 0.402, "supervised")
START = Probe(0, 0.4, "start")
HALVES = Probe(0, None, "start", other_half=0.4)


@pytest.mark.parametrize(
    ("probes", "line"),
    [
        ([RANDOM], "Probe before the training: linear mAP 22.1 %, mIoU 10.0 %"),
        ([RANDOM, SUPERVISED], "Probe of supervised weights: linear mAP 40.2 %"),
        (
            [RANDOM, SUPERVISED, Probe(12, 0.313)],
            "Probe after epoch 12: linear mAP 31.3 %; random weights 22.1 %, 10.0 %; "
            "supervised 40.2 %; one seed, nothing follows",
        ),
        (
            [HALVES, Probe(2, other_half=0.36, interval=0.05)],
            "Probe after epoch 2: other half 36.0 %; before the training 40.0 %; "
            "level with its start: -4.0 ± 5.0 points",
        ),
        ([START, Probe(2, 0.5, interval=0.05)], "better than its start by +10.0 ± 5.0 points"),
        ([START, Probe(2, 0.2, interval=0.05)], "worse than its start by -20.0 ± 5.0 points"),
    ],
)
def test_the_line_has_the_verdict_of_the_interval(probes, line):
    assert probe_line(probes).endswith(line)


CONTINUED = {"custom_hooks": [{"type": "ContinuationHook", "heads_first": 1}]}
OWN = {"type": "ModuleBackbone", "network": "nets:own"}


def of_start(kind, folder):
    """The config of a run from a kind of start, and that start as WEIGHTS."""
    file = str(folder / "start.pth")
    resnet = {"type": "ResNet", "depth": 18}
    timm = {"type": "TimmBackbone", "model_name": "test_vit"}
    cfg, start = {
        "file": ({"model": {"backbone": resnet}, "weights": file}, file),
        "timm's file": ({"model": {"backbone": timm}, "weights": file}, f"timm/test_vit:{file}"),
        "timm": ({"model": {"backbone": timm}, "weights": "timm/test_vit"}, "timm/test_vit"),
        "supervised": ({"model": {"backbone": resnet}, "weights": "supervised"}, "supervised"),
        "own": ({"model": {"backbone": OWN}, **CONTINUED}, "nets:own"),
        "random": ({"model": {"backbone": resnet}}, None),
        "a function's random": ({"model": {"backbone": OWN}}, None),
    }[kind]
    config = folder / "run.py"
    config.touch()
    return Config(cfg, filename=config), start


KINDS = ("file", "timm's file", "timm", "supervised", "own", "random", "a function's random")


def proposal(scores, cfg, folder):
    probes = [Probe(0, 0.4, "start")]
    probes += [Probe(i, x, interval=0.05) for i, x in enumerate(scores, start=1)]
    probes = [each._replace(interval=None) if each.score == 0.49 else each for each in probes]
    write_probes(folder / "probe.csv", probes)
    weights, is_worth = propose(folder / "run_backbone.pth", cfg)
    return weights and weights.removeprefix(f"{folder}/"), is_worth


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_ends_worse_proposes_the_trained_weights_it_began_with(kind, tmp_path):
    cfg, start = of_start(kind, tmp_path)
    expected = start and start.removeprefix(f"{tmp_path}/")
    assert proposal([0.38, 0.3], cfg, tmp_path) == (expected, start is not None)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([], ("run_backbone.pth", True)),
        ([0.36, 0.37], ("run_backbone.pth", False)),  # within the interval of 0.05
        ([0.47, 0.48], ("run_backbone.pth", True)),
        ([0.47, 0.3], ("run_best_backbone.pth", True)),
        ([0.49, 0.37], ("run_backbone.pth", False)),  # the best one has no interval
    ],
)
def test_a_run_that_does_not_end_worse_proposes_its_last_or_best_weights(
    scores, expected, tmp_path
):
    for kind in KINDS:
        cfg, _ = of_start(kind, tmp_path)
        assert proposal(scores, cfg, tmp_path) == expected
