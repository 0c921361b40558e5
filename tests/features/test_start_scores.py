"""Scores without labels, the interval of a change, and what a run that goes on says of both."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.saving.stopped_runs import assert_equal_runs, train, write_pretraining
from mmengine.config import Config
from mmengine.hooks import Hook
from PIL import Image
from torch import nn

from mmssprl.datasets import UnlabeledImages
from mmssprl.features import FeatureBackbone, mean_average_precision
from mmssprl.features.extract import FeatureOptions
from mmssprl.features.probe_file import Probe, describe, describe_gain, read_probes
from mmssprl.features.start_scores import Scored, read_scored, score_halves
from mmssprl.models.unwrap import unwrap
from mmssprl.monitoring import TROUBLES, diagnose
from mmssprl.reporting.run import read_run
from mmssprl.reporting.summary import answer, facts, probe_words
from mmssprl.visualization.curves import draw_health
from mmssprl.weights import load_backbone

NUM = 12


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photographs of a colour each, with noise."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(NUM):
        pixels = rng.integers(0, 25, (40, 48, 3)) + rng.integers(0, 230, 3)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02}.png")
    return folder


def scored(num=60, shift=0.0):
    generator = torch.Generator().manual_seed(3)
    labels = (torch.rand(num, 3, generator=generator) < 0.3).to(torch.int8)
    labels[::7, 1] = -1
    return Scored(torch.randn(num, 3, generator=generator) + shift * (labels == 1), labels)


def test_the_map_of_a_draw_is_that_of_its_rows():
    found = scored()
    draws = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), 4)
    counts = torch.from_numpy(np.vstack([np.ones((1, 60)), draws])).double()
    for count, score in zip(counts, found.means(counts), strict=True):
        rows = torch.arange(60).repeat_interleave(count.long())
        expected = mean_average_precision(found.values[rows], found.labels[rows])[0]
        assert score.item() == pytest.approx(expected, abs=1e-9)


def test_the_interval_of_hits_is_that_of_their_paired_differences():
    generator = torch.Generator().manual_seed(1)
    start, now = (torch.rand(400, generator=generator) < 0.5 for _ in range(2))
    differences = now.double() - start.double()
    width = Scored(now.double()).half_width(Scored(start.double()))
    assert width == pytest.approx(1.96 * differences.std().item() / 20, rel=0.1)
    assert Scored(start.double()).half_width(Scored(start.double())) == 0
    assert Scored(now.double()).half_width(Scored(start[1:].double())) is None
    assert 0 < scored(shift=1.0).half_width(scored()) < 0.2


def test_what_is_saved_is_read(tmp_path):
    scored().save(tmp_path / "a.pt")
    found = read_scored(tmp_path / "a.pt")
    assert torch.equal(found.values, scored().values)
    assert torch.equal(found.labels, scored().labels)
    assert read_scored(tmp_path / "b.pt") is None


class Colour(nn.Module):
    def forward(self, images):
        return images.mean(dim=(2, 3))


class Nothing(nn.Module):
    def forward(self, images):
        return torch.ones(len(images), 3)


def test_halves_are_found_by_what_tells_the_images_apart(photos):
    images, options = UnlabeledImages(str(photos)), FeatureOptions(device="cpu", progress=False)
    hits, rank = score_halves(FeatureBackbone(Colour(), image_px=16), images, options)
    assert hits.values.tolist() == [1.0] * NUM
    assert 1.5 < rank <= 3
    hits, rank = score_halves(FeatureBackbone(Nothing(), image_px=16), images, options)
    assert hits.values.tolist() == [1.0] + [0.0] * (NUM - 1)
    assert rank == pytest.approx(1)


class Spoil(Hook):
    """Makes all features alike after an epoch."""

    def after_train_iter(self, runner, *args, **kwargs):
        if runner.iter >= NUM // 2:
            unwrap(runner.model).backbone.bn1.weight.data.zero_()
            unwrap(runner.model).backbone.bn1.bias.data.zero_()


@pytest.fixture(scope="module")
def config(photos, tmp_path_factory):
    path = write_pretraining(tmp_path_factory.mktemp("config"))
    start = load_backbone("random", Config.fromfile(path), seed=1)
    torch.save(start.state_dict(), path.with_name("start.pth"))
    return path


@pytest.fixture(scope="module")
def options(config, photos):
    names = ("PretrainHook", "MonitorHook", "ContinuationHook", "ProbeHook")
    hooks = [{"type": name} for name in names]
    hooks[2]["heads_first"], hooks[3]["interval"] = 0, 1
    return {
        "custom_hooks": hooks,
        "weights": str(config.with_name("start.pth")),
        "train_dataloader.dataset.data_root": str(photos),
    }


@pytest.fixture(scope="module")
def spoiled(config, options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoiled")
    train(config, folder, options={**options, "train_cfg.max_epochs": 4}, hooks=(Spoil(),))
    return folder


def test_a_run_that_is_worse_than_its_start_is_told_so_and_its_best_weights_are_kept(spoiled):
    probes = read_probes(spoiled / "probe.csv")
    assert [(p.epoch, p.weights) for p in probes] == [
        *((0, "start"), (0, "random")),
        *((epoch, "trained") for epoch in (1, 2, 3, 4)),
    ]
    assert probes[0].other_half > 0.5
    assert [p.interval is None for p in probes] == [True] * 2 + [False] * 4
    assert probes[-1].other_half == pytest.approx(1 / NUM)
    with (spoiled / "probe.csv").open() as file:
        assert next(csv.reader(file)) == [
            *("epoch", "seconds", "weights", "other_half", "rank_me", "interval")
        ]
    [log] = spoiled.glob("*/*.log")
    [line] = [
        line for line in log.read_text().splitlines() if TROUBLES["worse_than_start"].cure in line
    ]
    assert "points from that of the weights that it went on from: worse than its start" in line
    assert diagnose(spoiled).verdict in TROUBLES
    assert "worse than its start by -" in log.read_text()
    best = torch.load(spoiled / "stopped_best_backbone.pth", weights_only=True)
    assert best["bn1.weight"].any()


def test_the_report_has_the_verdict_and_the_curves_have_the_start(spoiled):
    run = read_run(spoiled)
    healthy = run.diagnosis._replace(verdict="healthy", words=[])
    bad = [p._replace(other_half=0.2, interval=0.1) if p.epoch else p for p in run.probes]
    found = answer(replace(run, probes=bad, diagnosis=healthy))
    assert (found.tone, found.headline) == ("bad", "Trouble: worse than its start")
    level = [p._replace(other_half=run.probes[0].other_half, interval=0.1) for p in run.probes]
    found = answer(replace(run, probes=level, diagnosis=healthy))
    assert found.tone == "unsure"
    assert "gains 0.0 ± 10.0 points of other halves found" in found.words[0]
    [fact] = [fact for fact in facts(run) if "other halves" in fact.name]
    assert "the weights it began with" in fact.remark
    assert "other half is found in" in probe_words(run)
    panels = {
        axes.get_title(loc="left"): axes for axes in draw_health(run.records, bad).figure.axes
    }
    labels = [line.get_label() for line in panels["other halves found, %"].lines]
    assert labels == ["found", "found, start weights", "found, random weights"]
    assert len(panels["RankMe of the frozen features"].lines) == 1


def test_a_stopped_run_keeps_the_start_and_its_intervals(config, options, tmp_path):
    train(config, tmp_path / "whole", options=options)
    train(config, tmp_path / "cut", stops=(8,), options=options)
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_3.pth")
    cut, whole = (read_probes(tmp_path / name / "probe.csv") for name in ("cut", "whole"))
    assert [p._replace(seconds=0) for p in cut] == [p._replace(seconds=0) for p in whole]


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (0.5, "better than its start by +10.0 ± 5.0 points"),
        (0.36, "level with its start by -4.0 ± 5.0 points"),
        (0.2, "worse than its start by -20.0 ± 5.0 points"),
    ],
)
def test_the_verdict_is_by_the_interval(score, told):
    probes = [Probe(0, 0.4, 0.3, 1.0, "start"), Probe(2, score, 0.3, 1.0, "trained", interval=0.05)]
    assert describe_gain(probes, probes[1]) == told
    assert describe(probes).endswith(f"before the training 40.0 %, 30.0 %; {told} (1 s)")
    assert describe_gain(probes, probes[0]) == ""
    without = {"linear_mAP": None, "knn_mAP": None, "rank_me": 4.5}
    halves = [p._replace(other_half=p.score, **without) for p in probes]
    assert f": other half {100 * score:.1f} %, RankMe 4.5; before the training 40.0 %, 4.5; " in (
        describe(halves)
    )
