from dataclasses import replace

import pytest
from helpers.experiments.tiny_benchmark import save_backbone
from helpers.package.checkout import ROOT
from helpers.package.mmcv_builds import without_operators
from mmengine.config import Config

from mmssprl.datasets.scenes import generate_scenes
from mmssprl.experiments.benchmark.protocols import WeightsRow, choose_protocols
from mmssprl.experiments.benchmark.start import Benchmark
from mmssprl.experiments.execute import Jobs, execute_runs
from mmssprl.experiments.options import BenchmarkOptions

pytestmark = [pytest.mark.full, pytest.mark.slow]

# A few steps on a few images use every part; the scores mean nothing.
SHORT = """
_base_ = {base!r}
train_cfg = dict(max_iters=3, val_interval=3)
test_dataloader = dict(dataset=dict(indices=4))
"""


def test_unmodified_packages_run_on_torchvisions_operators(tmp_path, monkeypatch):
    """Detection in two processes; finetuning/test_dense_runs.py has this mmcv's own operators."""
    monkeypatch.setenv("PYTHONPATH", without_operators(tmp_path)["PYTHONPATH"])

    scenes = generate_scenes(tmp_path / "few", num_train=16, num_val=8, size_px=96, progress=False)
    shipped = Config.fromfile(ROOT / "configs/ssprl/ssprl_resnet18_scenes.py")
    backbone = shipped.model.backbone.to_dict()
    path = save_backbone(tmp_path / "ssprl_resnet18_scenes_backbone.pth", backbone)

    asked = {"size": "scenes", "gpus": 2, "work_dir": str(tmp_path / "dense")}
    benchmark = Benchmark(BenchmarkOptions(weights=("random",), **asked), lambda line: None)
    benchmark.rows = [WeightsRow("ssprl", str(path), backbone)]
    benchmark.protocols = choose_protocols("scenes", ["detection", "segmentation"])
    for number, images_per_step in enumerate((8, 0)):  # detection runs in two processes
        config = tmp_path / f"short_{number}.py"
        config.write_text(SHORT.format(base=str(ROOT / benchmark.protocols[number].config)))
        short = {"config": str(config), "images_per_step": images_per_step}
        benchmark.protocols[number] = replace(benchmark.protocols[number], **short)
    plan = benchmark.plan_runs(scenes)
    outcomes = execute_runs(plan.runs, Jobs(2), lambda line: None)
    assert {outcome.reason for outcome in outcomes.values()} == {""}

    found = {run.protocol.name: list(outcome.values) for run, outcome in outcomes.items()}
    scores = ["AP", "AP50", "AP75", "mask_AP", "mask_AP50", "mask_AP75"]
    assert found == {"detection": scores, "segmentation": ["mIoU"]}

    logs = [path.read_text() for path in (tmp_path / "dense/runs").rglob("run.log")]
    assert len(logs) == 2
    assert all("ssprl_resnet18_scenes_backbone.pth" in log for log in logs)
    assert sum("SyncBatchNorm has no CPU kernel" in log for log in logs) == 1
