from types import SimpleNamespace

import pytest
import torch
from helpers.datasets.labelled_folders import write_coco as write_masked_coco
from helpers.engine.pretrain_runner import make_runner
from helpers.features.probe_folders import write_coco
from helpers.models.small_ssprl import BACKBONE
from helpers.saving.stopped_runs import PRETRAINING, logged
from mmengine.config import Config

from mmssprl.probing import ProbeHook, probe
from mmssprl.probing import hook as probe_hook
from mmssprl.probing.hook import Probe, weights_before
from mmssprl.probing.linear_classifier import fit_grouped_probe
from mmssprl.probing.probe_file import read_probes
from mmssprl.weights import load_network


def train(data, work_dir, options, **overrides):
    hooks = [{"type": "PretrainHook"}]
    if options is not None:
        hooks.append({"type": "ProbeHook", "data": str(data), **options})
    if "weights" in overrides:
        hooks.append({"type": "InitialWeightsHook", "weights": overrides["weights"]})
    (images,) = (each for each in data.iterdir() if each.name.startswith("train"))
    runner = make_runner(images, work_dir, custom_hooks=hooks, **overrides)
    runner.train()
    return runner


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Labelled images, some with a wrong label, so that scores are below 1."""
    return write_coco(tmp_path_factory.mktemp("probe"), mixed=True)


@pytest.fixture(scope="module")
def work_dir(data):
    """A run from weights, of a network that torchvision seems to have in the cache, too."""
    folder, cfg = data.parent, Config({"model": {"backbone": BACKBONE}})
    for seed, name in ((4, "start"), (5, "supervised")):
        torch.save(load_network("random", cfg, seed=seed).state_dict(), folder / f"{name}.pth")
    state = torch.load(folder / "supervised.pth")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe_hook, "torchvision_depth", lambda cfg: 18)
        patch.setattr(probe_hook, "has_supervised", lambda depth: depth == 18)
        patch.setattr("mmssprl.weights.backbone.supervised_state", lambda depth: state)
        options = {"max_epochs": 3, "weights": str(folder / "start.pth")}
        train(data, folder / "run", {"interval": 2}, **options)
    return folder / "run"


@pytest.fixture
def score_of(data, monkeypatch):
    """Return the score of `probe` for weights, with the hook's folds."""
    monkeypatch.setattr(
        "mmssprl.probing.linear.fit_grouped_probe",
        lambda *args, **options: fit_grouped_probe(*args, **{**options, "num_folds": 2}),
    )
    config = data.parent / "toy.py"
    Config.fromstring(PRETRAINING.format(images="images"), ".py").dump(config)
    return lambda name: pytest.approx(
        probe(name, data, config=config, progress=False).mAP, abs=1e-6
    )


def test_the_training_equals_one_without_a_probe(data, work_dir, tmp_path):
    train(data, tmp_path, None, max_epochs=3, weights=str(data.parent / "start.pth"))
    with_probe, without = (
        torch.load(folder / "toy_ssprl_backbone.pth", weights_only=True)
        for folder in (work_dir, tmp_path)
    )
    torch.testing.assert_close(with_probe, without, rtol=0, atol=0)


def test_all_weights_of_a_start_and_each_interval_are_scored_and_the_best_kept(work_dir, score_of):
    found = read_probes(work_dir / "probe.csv")
    before = [(0, "start"), (0, "random"), (0, "supervised")]
    assert [(p.epoch, p.weights) for p in found] == [*before, (2, "trained"), (3, "trained")]
    assert [p.interval is None for p in found] == [True] * 3 + [False] * 2
    scores = [p.linear_mAP for p in found]
    assert 0 < min(scores) < max(scores) <= 1
    lines = [line for line in logged(work_dir) if "probe/linear_mAP" in line]
    assert [line["step"] for line in lines] == [0, 12, 18]
    assert [line["probe/linear_mAP"] for line in lines] == [scores[0], *scores[3:]]
    last, best = (work_dir / f"toy_ssprl_{name}.pth" for name in ("backbone", "best_backbone"))
    start, supervised = (work_dir.with_name(f"{name}.pth") for name in ("start", "supervised"))
    measured = [score_of(name) for name in (start, "random", supervised, last, best)]
    assert [*scores[:3], scores[-1], max(scores[3:])] == measured


@pytest.mark.parametrize(
    ("given", "epochs", "interval"), [(None, 9, 1), (None, 109, 10), (4, 100, 4)]
)
def test_a_resumed_run_keeps_its_probes_and_its_interval(given, epochs, interval, data, tmp_path):
    head = "epoch,linear_mAP,knn_mAP,seconds,weights"
    (tmp_path / "probe.csv").write_text(f"{head}\n0,0.1,0.2,5.0,random\n")
    hook = ProbeHook(str(data), interval=given)
    hook.before_train(SimpleNamespace(work_dir=tmp_path, iter=3, epoch=0, max_epochs=epochs))
    assert (hook.probes, hook.interval) == ([Probe(0, 0.1, "random")], interval)


def test_at_most_so_many_images_are_probed_at_an_interval_from_1(data, monkeypatch):
    with pytest.raises(ValueError, match="interval .* 0"):
        ProbeHook(str(data), interval=0)
    monkeypatch.setattr(probe_hook, "MOST_IMAGES", 15)
    found = ProbeHook(str(data)).data
    assert (len(found.train.paths), len(found.test.paths)) == (15, 12)


def test_supervised_weights_are_those_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": 18}}})
    assert weights_before(cfg) == ["random"]
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    (tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth").touch()
    assert weights_before(cfg) == ["random", "supervised"]
    assert weights_before(Config({**cfg, "weights": "a.pth"})) == ["start", "random", "supervised"]
    assert weights_before(Config({**cfg, "weights": "supervised"})) == ["supervised", "random"]
    assert weights_before(Config({**cfg, "load_from": "b.pth"}))[:2] == ["start", "random"]
    for other in ({"depth": 34}, {"base_channels": 8}, {"type": "SwinTransformer"}):
        cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": 18, **other}}})
        assert weights_before(cfg) == ["random"]


def test_damaged_weights_missing_probes_and_unreadable_images_are_skipped(tmp_path, monkeypatch):
    data, run = write_masked_coco(tmp_path / "data"), tmp_path / "run"
    monkeypatch.setattr(probe_hook, "weights_before", lambda cfg: ["random", "supervised"])
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub/checkpoints").mkdir(parents=True)
    (tmp_path / "hub/checkpoints/resnet18-f37072fd.pth").touch()  # damaged
    train(data, run, {}, max_epochs=1)
    random, trained = read_probes(run / "probe.csv")
    assert (random.weights, trained.weights) == ("random", "trained")
    measured = probe(run / "toy_ssprl_backbone.pth", data, progress=False)
    assert trained.mIoU == pytest.approx(measured.dense.mIoU)
    (run / "probe.csv").unlink()
    (data / "train/pictures/cam 0/Shot-00.v1.PNG").write_text("no image")
    train(data, run, {}, max_epochs=2, load_from=str(run / "epoch_1.pth"), resume=True)
    assert [each.epoch for each in read_probes(run / "probe.csv")] == [2]
    text = "".join(log.read_text() for log in run.glob("*/*.log"))
    assert "supervised weights are not probed" in text
    assert text.count("1 images of train cannot be read") == 1
    assert (run / "toy_ssprl_best_backbone.pth").exists()
