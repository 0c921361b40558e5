import os
import subprocess
import sys
from dataclasses import replace

import pytest
from helpers.experiments.tiny_benchmark import save_backbone
from helpers.package.checkout import ROOT
from helpers.package.mmcv_builds import IS_COMPILED, without_operators
from mmengine.config import Config

from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments.benchmark.protocols import Weights, choose_protocols
from mmssprl.experiments.benchmark.start import Benchmark
from mmssprl.experiments.execute import Jobs, execute_runs
from mmssprl.experiments.options import BenchmarkOptions

PRETRAINING = ROOT / "configs/ssprl/ssprl_resnet18_scenes.py"
# The schedules of size scenes, shortened, with their form and learning rates.
LINEAR = """
_base_ = {base!r}
train_cfg = dict(max_epochs=6, val_interval=6)
param_scheduler = [dict(_base_.param_scheduler[0], T_max=6)]
"""
SEMISUP = """
_base_ = {base!r}
train_cfg = dict(max_epochs=25, val_interval=25)
param_scheduler = [dict(_base_.param_scheduler[0], milestones=[15, 20])]
"""
# A few steps on a few images use every part; the scores mean nothing.
DENSE = """
_base_ = {base!r}
train_cfg = dict(max_iters=3, val_interval=3)
test_dataloader = dict(dataset=dict(indices=4))
"""

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("transfer")


@pytest.fixture(scope="module")
def scenes(folder):
    return generate_scenes(
        folder / "scenes", num_train=1200, num_val=600, size_px=96, progress=False
    )


@pytest.fixture(scope="module")
def rows(folder, scenes):
    """The backbone of the shipped recipe, and random weights of the same architecture."""
    work_dir = folder / "pretrain"
    images = f"train_dataloader.dataset.data_root={scenes}/coco/train2014"
    done = subprocess.run(
        [sys.executable, "tools/train.py", str(PRETRAINING), "--work-dir", str(work_dir)]
        + ["--cfg-options", images],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    backbone = Config.fromfile(PRETRAINING).model.backbone.to_dict()
    weights = work_dir / "ssprl_resnet18_scenes_backbone.pth"
    return [Weights("ssprl", str(weights), backbone), Weights("random", "random", backbone)]


def shortened(name, change, folder, **others):
    """Return a protocol of size scenes with a changed config."""
    (protocol,) = choose_protocols("scenes", [name])
    config = folder / f"short_{name}.py"
    config.write_text(change.format(base=str(ROOT / protocol.config)))
    return replace(protocol, config=str(config), **others)


def run(rows, protocols, folder, scenes, name, num_gpus=1):
    asked = {"size": "scenes", "gpus": num_gpus, "work_dir": str(folder / name)}
    benchmark = Benchmark(BenchmarkOptions(weights=("random",), **asked), lambda line: None)
    benchmark.rows, benchmark.protocols = rows, protocols
    plan = benchmark.make_plan(scenes, may_lack=False)
    execute_runs(plan.waiting, Jobs(2), lambda line: None)
    outcomes = execute_runs(plan.runs, Jobs(2), lambda line: None)
    assert {outcome.reason for outcome in outcomes.values()} == {""}
    return {(run.protocol.name, run.weights): outcome.values for run, outcome in outcomes.items()}


@pytest.mark.slow
def test_pretrained_weights_beat_random_ones_with_few_labels_and_frozen(rows, folder, scenes):
    protocols = [shortened("linear", LINEAR, folder), shortened("semisup-10", SEMISUP, folder)]
    found = run(rows, protocols, folder, scenes, "multi_label")
    for protocol in ("linear-coco", "semisup-10"):
        assert found[protocol, "ssprl"]["mAP"] > found[protocol, "random"]["mAP"]


@pytest.fixture(scope="module")
def few_scenes(folder):
    return generate_scenes(folder / "few", num_train=16, num_val=8, size_px=96, progress=False)


@pytest.fixture(scope="module")
def untrained(folder):
    """A backbone file as a pre-training on the shipped recipe leaves it."""
    backbone = Config.fromfile(PRETRAINING).model.backbone.to_dict()
    path = save_backbone(folder / "ssprl_resnet18_scenes_backbone.pth", backbone)
    return Weights("ssprl", str(path), backbone)


def run_dense(row, folder, scenes, name, num_gpus):
    """Run detection in ``num_gpus`` processes and segmentation in one; return their logs."""
    protocols = [
        shortened("detection", DENSE, folder, images_per_step=8),
        shortened("segmentation", DENSE, folder, images_per_step=0),
    ]
    found = run([row], protocols, folder, scenes, name, num_gpus=num_gpus)
    assert list(found["detection", row.name]) == [
        *("AP", "AP50", "AP75"),
        *("mask_AP", "mask_AP50", "mask_AP75"),
    ]
    assert list(found["segmentation", row.name]) == ["mIoU"]
    logs = [path.read_text() for path in (folder / name / "runs").rglob("run.log")]
    assert len(logs) == 2
    return logs


def test_detection_and_segmentation_run_unmodified_packages(untrained, folder, few_scenes):
    logs = run_dense(untrained, folder, few_scenes, "dense", num_gpus=2)
    assert all("ssprl_resnet18_scenes_backbone.pth" in log for log in logs)
    assert sum("SyncBatchNorm has no CPU kernel" in log for log in logs) == 1


@pytest.mark.skipif(not IS_COMPILED, reason="this mmcv has no compiled operators: tested above")
def test_detection_and_segmentation_run_on_torchvisions_operators(
    untrained, folder, few_scenes, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", without_operators(tmp_path)["PYTHONPATH"])
    run_dense(untrained, folder, few_scenes, "dense_torchvision", num_gpus=1)
