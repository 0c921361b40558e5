import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.datasets.labelled_folders import write_coco
from helpers.experiments.tiny_compare import comparison, planned, rows, stay_in_process
from helpers.models.small_contrast import make_model
from mmengine.config import Config
from mmengine.logging import MessageHub
from torch.utils.data import DataLoader

import mmssprl
from mmssprl.experiments.compare import training
from mmssprl.experiments.compare.training import Meter
from mmssprl.pretraining.methods import BY_KEY
from mmssprl.weights import load_network, write_description


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Do a call in one work dir, and return its lines and the folders in which it has worked."""
    root = tmp_path_factory.mktemp("compare")
    data = write_coco(root / "data", 24, 12)
    work_dir = root / "work"
    starts = {}

    def record(meter, runner, *args, **kwargs):
        if runner.iter == 0:
            state = runner.model.backbone.state_dict()
            weights = {name: value.clone() for name, value in state.items()}
            order = list(runner.train_dataloader.sampler)
            starts[meter.seed, Path(meter.config.filename).stem] = weights, order

    with pytest.MonkeyPatch.context() as patch:
        folders = stay_in_process(patch)
        patch.setattr(Meter, "before_train_iter", record, raising=False)

        def call(**changes):
            del folders[:]
            lines = []
            assert comparison(work_dir, data, log=lines.append, **changes).start() == 0
            return lines, list(folders)

        call.data = data
        call.work_dir = work_dir
        call.starts = starts
        yield call


@pytest.fixture(scope="module")
def first(calls):
    """The first call: its lines, the folders in which it has worked, and a row of each method."""
    lines, folders = calls(seeds=1, equal=("epochs",))
    results = {row["method"]: row for row in rows(calls.work_dir / "results.csv")}
    return SimpleNamespace(lines=lines, folders=folders, results=results)


def test_the_first_call_runs_everything(first):
    runs = [f"{name}-lr1-seed0" for name in ("random-0ep", "swav-1ep", "ssprl-1ep")]
    assert first.folders == runs  # equal epochs need no paces
    assert first.lines[1] == "runs: 3, 0 of them complete"
    assert first.lines[3].startswith("[2/3] SwAV, no small views, 1 epoch, seed 0: mAP ")
    assert "### Equal epochs" in first.lines[-2]
    assert list(first.results) == ["random", "swav", "ssprl"]


def test_the_length_of_each_run_is_tabled(first):
    for key in ("swav", "ssprl"):
        row = first.results[key]
        # Three steps of 8 images are an epoch of 24.
        assert (row["epochs"], row["steps"], row["images"]) == ("1", "3", "24")
        assert float(row["seconds"]) > 0
        assert float(row["loss"]) > 0
        assert row["commit"]
    random = first.results["random"]
    assert (random["epochs"], random["images"]) == ("0", "0")


def test_the_score_of_each_run_is_tabled(first):
    for row in first.results.values():
        assert 0 < float(row["mAP"]) <= 1
        assert float(row["chance_mAP"]) == pytest.approx(2 / 3)  # classes are in 8 of 12 images


def test_the_miou_equals_the_one_of_probe(calls, first):
    config = "configs/ssprl/ssprl_resnet18_scenes.py"
    options = {"config": config, "image_px": 96, "progress": False}
    dense = mmssprl.probe("random", calls.data, **options).dense
    row = first.results["random"]
    assert (float(row["mIoU"]), float(row["chance_mIoU"])) == (dense.mIoU, dense.chance_mIoU)


@pytest.fixture
def starts(calls, first):
    """Backbone and order of images with which SwAV and SS-PRL have started from one seed."""
    names = ("ssprl-image-only", "ssprl")
    return [calls.starts[0, f"{name}_resnet18_scenes"] for name in names]


def test_equal_seeds_start_with_equal_backbones(starts):
    (swav, _), (ssprl, _) = starts
    drawn = load_network("random", BY_KEY["ssprl"].config_at("scenes"), seed=0)
    assert swav.keys() == ssprl.keys() == drawn.state_dict().keys()
    for name, value in drawn.state_dict().items():
        assert torch.equal(swav[name].cpu(), value)
        assert torch.equal(ssprl[name].cpu(), value)


def test_equal_seeds_see_the_images_in_one_order(starts):
    (_, swav), (_, ssprl) = starts
    assert swav == ssprl
    assert swav != sorted(swav)


def test_a_config_with_weights_starts_from_them(calls, first):
    config = BY_KEY["swav"].config_at("scenes")
    drawn = load_network("random", config, seed=5).state_dict()
    weights = calls.work_dir.parent / "start.pth"
    own = calls.work_dir.parent / "goes_on.py"
    torch.save({"state_dict": drawn}, weights)
    config.weights = str(weights)
    own.write_text("".join(f"{key} = {value!r}\n" for key, value in config.to_dict().items()))
    calls(seeds=1, equal=("epochs",), methods=[str(own)])
    started, _ = calls.starts[0, "goes_on"]
    assert all(torch.equal(started[name].cpu(), value) for name, value in drawn.items())


def test_paces_count_the_operations_of_a_step(calls, first):
    flops = {}
    for run in planned(calls.work_dir, calls.data, seeds=1).pace_runs():
        values = run.work(1)
        for turns in values["turns"].values():
            assert [*map(len, turns)] == [1] * len(turns)
        flops |= values["flops"]
    assert 3 < flops["ssprl"] / flops["swav"] < 8  # SS-PRL cuts 28 crops, SwAV 2 of them


@pytest.mark.parametrize(
    ("options", "resumed"), [({}, [3, 4]), ({"save_every": 1}, [4])], ids=["epoch", "step"]
)
def test_a_stopped_run_resumes_from_its_checkpoint(calls, first, monkeypatch, options, resumed):
    found = planned(calls.work_dir, calls.data, seeds=2, equal=("epochs",))
    runs = found.final_runs()["epochs"]
    [run] = [run for run in runs if run.folder.name == "swav-1ep-lr1-seed1"]

    def with_options(**options):
        return replace(run, inputs={**run.inputs, "options": {**run.inputs["options"], **options}})

    run = with_options(**{"train_cfg.max_epochs": 3}, **options)
    seen = []

    def stop_once(meter, runner, *args, **kwargs):
        seen.append(runner.iter)
        if len(seen) == 5:  # in the second epoch of three steps
            raise OSError("stopped")

    monkeypatch.setattr(Meter, "after_train_iter", stop_once)
    # A step takes a second.
    monkeypatch.setattr(training, "work_ns", lambda: lambda: 10**9 * len(seen))
    with pytest.raises(OSError, match="stopped"):
        run.work(1)
    assert not run.is_complete
    values = run.work(1)
    assert seen == [0, 1, 2, 3, 4, *resumed, 5, 6, 7, 8]
    assert values["steps"] == 9
    # Those of the steps whose results were lost do not count.
    assert values["seconds"] == 9
    # One that is far too high counts as having told nothing.
    nothing = with_options(**{"optim_wrapper.optimizer.lr": 1e30}).work(1)
    assert (nothing["mAP"], nothing["collapsed"]) == (nothing["chance_mAP"], True)


@pytest.mark.parametrize(
    ("spreads", "rank", "collapsed"),
    [((0.9, 0.9, 0.2, 0.1), 4.9, True), ((0.2, 0.1, 0.9, 0.9), 4.9, False)]
    # As healthy runs show it, too; and without a rank.
    + [((0.9, 0.9, 0.2, 0.1), 5.1, False), ((0.9, 0.9, 0.2, 0.1), None, False)],
)
def test_the_last_epoch_is_measured(spreads, rank, collapsed):
    hub = MessageHub(f"two epochs of two steps, {rank} and {spreads}")
    for spread, loss in zip(spreads, (9.0, 8.0, 3.0, 1.0), strict=True):
        hub.update_scalars({"train/embedding_spread": spread, "train/loss": loss})
    if rank is not None:  # of some steps only
        hub.update_scalar("train/effective_rank", 30.0)
        hub.update_scalar("train/effective_rank", rank)
    loader = DataLoader(range(16), batch_size=8)
    meter = Meter(Config({}), seed=0)
    hub.update_info("compare_seconds", 1.0)
    about = {"message_hub": hub, "model": make_model(), "hooks": []}
    meter.after_train(SimpleNamespace(iter=4, train_dataloader=loader, **about))
    assert meter.measured["loss"] == 2.0
    assert meter.measured["embedding_spread"] == pytest.approx(sum(spreads[2:]) / 2)
    assert meter.measured["collapsed"] is collapsed


def test_a_training_whose_weights_are_gone_is_done_again(tmp_path, monkeypatch):
    (tmp_path / training.SETTINGS).write_text('{"trains": true}')
    trained = tmp_path / "trained.json"
    trained.write_text('{"weights": "gone.pth", "steps": 1}')
    done = {"weights": "new.pth", "steps": 2}
    monkeypatch.setattr(training, "_train", lambda folder, settings: dict(done))
    monkeypatch.setattr(training, "_probe", lambda weights, settings: {"mAP": 0.5})
    training.train_and_probe(tmp_path)
    assert json.loads(trained.read_text()) == done
    assert json.loads((tmp_path / training.MEASURED).read_text())["steps"] == 2


def test_a_row_without_training_is_scored_by_its_weights(tmp_path, monkeypatch):
    config = BY_KEY["swav"].config_at("scenes")
    network = load_network("random", config, seed=5)
    weights = tmp_path / "start.pth"
    torch.save(network.state_dict(), weights)
    trained = Config(config.to_dict())
    trained.model.data_preprocessor.update(mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0))
    write_description(weights, trained)

    seen = []
    monkeypatch.setattr(training, "read_images", lambda *_: None)
    monkeypatch.setattr(training, "read_masks", lambda *_, **__: None)
    monkeypatch.setattr(training, "score_features", lambda *given: seen.append(given[2]))
    settings = {"config": str(BY_KEY["swav"].config_file()), "size": "scenes", "teacher": None}
    settings |= {"values": {"weights": str(weights)}, "image_px": 96, "seed": 0}
    with pytest.raises(TypeError):  # no scores
        training._probe(None, {**settings, "data": "", "split": ""})
    assert (seen[0].mean, seen[0].std) == ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    assert torch.equal(seen[0].backbone.conv1.weight, network.conv1.weight)
