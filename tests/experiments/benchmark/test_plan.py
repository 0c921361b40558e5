import pytest
from helpers.experiments.tiny_benchmark import NARROW, protocol, save_backbone, transfer_run
from mmengine.config import Config

from mmssprl.config.reading import read_config_file
from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments.benchmark.plan import BenchmarkPlan
from mmssprl.experiments.benchmark.protocols import WeightsRow
from mmssprl.experiments.benchmark.start import Benchmark
from mmssprl.experiments.options import BenchmarkOptions
from mmssprl.experiments.run import Run, RunOutcome

RANDOM = WeightsRow("random", "random", None)
SUPERVISED = WeightsRow("supervised", "supervised", None)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=2, num_val=1, size_px=64, progress=False)


@pytest.fixture
def plan(tmp_path):
    def plan(rows, names, data, *, size="scenes", seeds=1, may_lack_data=False):
        asked = {"size": size, "seeds": seeds, "work_dir": str(tmp_path / "work")}
        benchmark = Benchmark(BenchmarkOptions(weights=("random",), **asked), lambda line: None)
        benchmark.rows = rows
        benchmark.protocols = [protocol(name, size) for name in names]
        return benchmark.plan_runs(data, may_lack_data=may_lack_data)

    return plan


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "part"),
    [("linear-coco", "coco"), ("detection", "coco"), ("segmentation", "voc/VOC2007")],
)
def test_a_config_holds_all_that_its_run_needs(name, part, plan, scenes, tmp_path, monkeypatch):
    file = save_backbone(tmp_path / "narrow.pth")
    monkeypatch.chdir(scenes.parent)
    row = WeightsRow("narrow", str(file), NARROW)
    found = plan([RANDOM, row], [name], type(scenes)("scenes"), seeds=2)
    runs = [(run.weights, run.seed) for run in found.runs]
    assert runs == [("random", 0), ("narrow", 0), ("random", 1), ("narrow", 1)]
    for run in found.runs:
        cfg = Config.fromfile(run.config)
        assert read_config_file(run.config).to_dict() == cfg.to_dict()
        assert run.config == tmp_path / "work/configs" / f"{run.weights}_{name}_seed{run.seed}.py"
        assert run.folder == tmp_path / "work" / "runs" / run.weights / name / f"seed{run.seed}"
        assert cfg.randomness.seed == run.seed
        assert cfg.weights == {"random": "random", "narrow": str(file)}[run.weights]
        assert cfg.model.backbone.base_channels == {"random": 16, "narrow": 8}[run.weights]
        # The data may lie relative to where the command runs: they become absolute.
        for split in ("train", "test"):
            assert cfg[f"{split}_dataloader"].dataset.data_root == str(scenes / part)
        if name == "detection":
            expected = scenes / "coco/annotations/instances_val2014.json"
            assert cfg.test_evaluator.ann_file == str(expected)
        read = [cfg.get(key) for key in ("train_dataloader", "test_dataloader", "test_evaluator")]
        assert "'data/" not in repr(read)
        assert (cfg.val_cfg, cfg.val_dataloader, cfg.val_evaluator) == (None, None, None)
        assert cfg.test_cfg is not None


def test_a_missing_package_is_refused_before_missing_data(plan, scenes, monkeypatch):
    monkeypatch.setattr("mmssprl.config.run_checks.missing_package", {"mmdet": "mmdet"}.get)
    with pytest.raises(RuntimeError, match="needs mmdet, .*transfer.txt"):
        plan([RANDOM], ["linear-coco", "detection"], scenes / "later", may_lack_data=True)
    assert len(plan([RANDOM], ["linear-coco"], scenes).runs) == 1


def test_weights_that_do_not_fit_are_refused(plan, scenes, tmp_path):
    file = save_backbone(tmp_path / "narrow.pth")
    row = WeightsRow("narrow", str(file), None)
    with pytest.raises(ValueError, match=f"every weight of {file} must fit the backbone of"):
        plan([RANDOM, row], ["linear-coco"], scenes)
    assert not (tmp_path / "work" / "runs").exists()


def test_supervised_is_trained_here_from_random_weights(plan, scenes, tmp_path):
    row = WeightsRow("supervised", "supervised", NARROW)
    found = plan([RANDOM, row], ["linear-coco", "semisup-10"], scenes, seeds=2)
    training = found.trainings["supervised"]
    assert found.shell_lines() == [run.shell_line() for run in (training, *found.runs)]
    assert training.folder == tmp_path / "work" / "runs" / "supervised_pretraining"
    [(_, tool, config, *options)] = training.commands
    assert tool.endswith("tools/train.py")
    assert options == ["--work-dir", str(training.folder), "--resume"]
    cfg = Config.fromfile(config)
    assert (cfg.weights, cfg.randomness.seed) == ("random", 0)
    assert (cfg.model.frozen_backbone, cfg.model.backbone.base_channels) == (False, 8)
    assert cfg.train_dataloader.dataset.data_root == str(scenes / "coco")
    last = str(training.folder / f"epoch_{cfg.train_cfg.max_epochs}.pth")
    starts = [(run.weights, Config.fromfile(run.config).weights) for run in found.runs]
    assert sorted(starts) == 4 * [("random", "random")] + 4 * [("supervised", last)]


def test_supervised_is_torchvisions_at_full_size_alone(plan, tmp_path, monkeypatch):
    fetched = []
    full = {"size": "paper", "may_lack_data": True}
    monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", fetched.append)
    found = plan([SUPERVISED], ["linear-voc"], tmp_path, **full)
    assert found.trainings == {}
    assert fetched == [50]  # before the first run, which might have no network
    assert Config.fromfile(found.runs[0].config).weights == "supervised"
    monkeypatch.undo()
    narrow = WeightsRow("supervised", "supervised", NARROW)
    with pytest.raises(ValueError, match="torchvision's ResNet of standard width"):
        plan([narrow], ["linear-voc"], tmp_path, **full)
    # Trained here, its data are needed even if no protocol reads them.
    with pytest.raises(FileNotFoundError, match="coco128/annotations/instances_train2014"):
        plan([SUPERVISED], ["linear-voc"], tmp_path / "none", size="coco128")


def test_a_training_is_left_out_when_nothing_starts_from_it_any_more(tmp_path):
    training = Run(name="t", folder=tmp_path / "pre", commands=(), measures="")
    complete = transfer_run(tmp_path, weights="supervised")
    complete.keep(RunOutcome({"mAP": 30.0}, 1.0))
    runs = complete, transfer_run(tmp_path, weights="random")
    assert BenchmarkPlan(runs, trainings={"supervised": training}).waiting == []
    training.keep(RunOutcome({}, 1.0))  # nor when it has ended
    waits = transfer_run(tmp_path, weights="supervised", seed=1)
    assert BenchmarkPlan((waits,), trainings={"supervised": training}).waiting == []
