import shutil
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
from mmssprl.probing.probe_file import LOST, best_of, read_probes, write_probes
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
    folder = data.parent
    cfg = Config({"model": {"backbone": BACKBONE}})
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


def test_weights_of_the_start_are_probed_first_then_each_interval(work_dir):
    found = read_probes(work_dir / "probe.csv")
    before = [(0, "start"), (0, "random"), (0, "supervised")]
    assert [(p.epoch, p.weights) for p in found] == [*before, (2, "trained"), (3, "trained")]
    assert [p.interval is None for p in found] == [True] * 3 + [False] * 2


def test_scores_of_the_run_are_logged(work_dir):
    scores = [p.linear_mAP for p in read_probes(work_dir / "probe.csv")]
    lines = [line for line in logged(work_dir) if "probe/linear_mAP" in line]
    assert [line["step"] for line in lines] == [0, 12, 18]
    assert [line["probe/linear_mAP"] for line in lines] == [scores[0], *scores[3:]]


def test_scores_equal_those_of_the_command(work_dir, score_of):
    scores = [p.linear_mAP for p in read_probes(work_dir / "probe.csv")]
    assert 0 < min(scores) < max(scores) <= 1
    start = work_dir.with_name("start.pth")
    supervised = work_dir.with_name("supervised.pth")
    last = work_dir / "toy_ssprl_backbone.pth"
    measured = [score_of(name) for name in (start, "random", supervised, last)]
    assert [*scores[:3], scores[-1]] == measured


def test_the_best_weights_are_kept(work_dir, score_of):
    trained = [p.linear_mAP for p in read_probes(work_dir / "probe.csv") if p.epoch]
    assert max(trained) == score_of(work_dir / "toy_ssprl_best_backbone.pth")


def resumed(data, work_dir, epochs, **options):
    """A hook of a run that resumes after its first update, of a training of some epochs."""
    head = "epoch,linear_mAP,knn_mAP,seconds,weights"
    (work_dir / "probe.csv").write_text(f"{head}\n0,0.1,0.2,5.0,random\n")
    hook = ProbeHook(str(data), **options)
    hook.before_train(SimpleNamespace(work_dir=work_dir, iter=3, epoch=0, max_epochs=epochs))
    return hook


@pytest.mark.parametrize(("epoch", "weights"), [(2, "lost"), (3, "trained")])
def test_a_run_resumed_before_its_best_probe_has_no_best_weights(epoch, weights, data, tmp_path):
    scores = [Probe(0, 0.1, "random"), Probe(1, 0.3), Probe(2, 0.2), Probe(3, 0.4)]
    write_probes(tmp_path / "probe.csv", scores)
    hook = ProbeHook(str(data))
    hook.before_train(SimpleNamespace(work_dir=tmp_path, iter=9, epoch=epoch, max_epochs=5))
    assert {probe.weights for probe in hook.probes if probe.epoch} == {weights}
    assert [probe.epoch for probe in hook.probes] == [*range(epoch + 1)]


def test_lost_weights_are_not_the_best_ones():
    probes = [Probe(0, 0.1, "random"), Probe(1, 0.4, LOST)]
    assert best_of(probes) is None
    assert best_of([*probes, Probe(2, 0.2)]).epoch == 2


def test_a_run_without_the_probe_of_its_start_has_no_gain(data, tmp_path):
    """probe.csv was moved away, as the message about a damaged one says."""
    train(data, tmp_path, {"interval": 1}, max_epochs=1)
    start = (tmp_path / "probe_start.pt").read_bytes()
    (tmp_path / "probe.csv").unlink()
    overrides = {"max_epochs": 2, "resume": True, "load_from": str(tmp_path / "epoch_1.pth")}
    train(data, tmp_path, {"interval": 1}, **overrides)
    [probe] = read_probes(tmp_path / "probe.csv")
    assert (probe.epoch, probe.interval) == (2, None)
    assert (tmp_path / "probe_start.pt").read_bytes() == start


def test_a_resumed_run_keeps_its_probes(data, tmp_path):
    assert resumed(data, tmp_path, 9).probes == [Probe(0, 0.1, "random")]


@pytest.mark.parametrize(
    ("given", "epochs", "interval"), [(None, 9, 1), (None, 109, 10), (4, 100, 4)]
)
def test_the_interval_is_a_tenth_of_all_epochs_or_the_given_one(
    given, epochs, interval, data, tmp_path
):
    assert resumed(data, tmp_path, epochs, interval=given).interval == interval


def test_an_interval_below_1_is_refused(data):
    with pytest.raises(ValueError, match="interval .* 0"):
        ProbeHook(str(data), interval=0)


def test_at_most_so_many_images_are_probed(data, monkeypatch):
    monkeypatch.setattr(probe_hook, "MOST_IMAGES", 15)
    found = ProbeHook(str(data)).data
    assert (len(found.train.paths), len(found.test.paths)) == (15, 12)


RESNET = {"type": "ResNet", "depth": 18}


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A cache of torch that has supervised weights."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


@pytest.mark.parametrize(
    ("start", "weights"),
    [
        ({}, ["random", "supervised"]),
        ({"weights": "a.pth"}, ["start", "random", "supervised"]),
        ({"weights": "supervised"}, ["supervised", "random"]),
        ({"load_from": "b.pth"}, ["start", "random", "supervised"]),
    ],
)
@pytest.mark.usefixtures("cached")
def test_each_start_is_scored_with_random_weights(start, weights):
    assert weights_before(Config({"model": {"backbone": RESNET}, **start})) == weights


def test_supervised_weights_are_scored_only_from_the_cache(cached):
    cached.unlink()
    assert weights_before(Config({"model": {"backbone": RESNET}})) == ["random"]


@pytest.mark.parametrize("other", [{"depth": 34}, {"base_channels": 8}, {"type": "Swin"}])
@pytest.mark.usefixtures("cached")
def test_supervised_weights_are_scored_only_of_torchvisions_network(other):
    assert weights_before(Config({"model": {"backbone": {**RESNET, **other}}})) == ["random"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """Images with masks, and a run on them with damaged supervised weights in the cache."""
    folder = tmp_path_factory.mktemp("masked")
    data = write_masked_coco(folder / "data")
    (folder / "hub/checkpoints").mkdir(parents=True)
    (folder / "hub/checkpoints/resnet18-f37072fd.pth").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe_hook, "weights_before", lambda cfg: ["random", "supervised"])
        patch.setenv("TORCH_HOME", str(folder))
        train(data, folder / "run", {}, max_epochs=1)
    return data, folder / "run"


def text_of_logs(run):
    return "".join(log.read_text() for log in run.glob("*/*.log"))


def test_damaged_supervised_weights_are_left_out(masked):
    _, run = masked
    assert [each.weights for each in read_probes(run / "probe.csv")] == ["random", "trained"]
    assert "supervised weights are not probed" in text_of_logs(run)


def test_the_miou_equals_the_one_of_the_command(masked):
    data, run = masked
    trained = read_probes(run / "probe.csv")[-1]
    measured = probe(run / "toy_ssprl_backbone.pth", data, progress=False)
    assert trained.mIoU == pytest.approx(measured.dense.mIoU)


def test_a_run_resumes_despite_lost_files(masked, tmp_path):
    data = shutil.copytree(masked[0], tmp_path / "data")
    run = shutil.copytree(masked[1], tmp_path / "run")
    (run / "probe.csv").unlink()
    (data / "train/pictures/cam 0/Shot-00.v1.PNG").write_text("no image")
    train(data, run, {}, max_epochs=2, load_from=str(run / "epoch_1.pth"), resume=True)
    assert [each.epoch for each in read_probes(run / "probe.csv")] == [2]
    assert text_of_logs(run).count("1 images of train cannot be read") == 1
    assert (run / "toy_ssprl_best_backbone.pth").exists()
