"""A run of seconds for the tests of the launchers: a model, its data and a config for them."""

import json
import time
from pathlib import Path

import torch
from mmengine.dist import get_rank, get_world_size
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseModel, is_model_wrapper
from mmengine.registry import DATASETS, HOOKS, METRICS, MODELS
from torch import nn

CONFIG = """
custom_imports = dict(imports=["helpers.engine.toy_run"])
model = dict(type="ToyModel", sync={sync})
train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    dataset=dict(type="ToyData"),
    sampler=dict(type="DefaultSampler", shuffle=False),
    collate_fn=dict(type="default_collate"),
)
test_dataloader = dict(**train_dataloader)
test_evaluator = dict(type="ToyMetric")
test_cfg = dict()
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="SGD", lr=0.01))
train_cfg = dict(by_epoch=True, max_epochs=1)
custom_hooks = [dict(type="ToyReport")]
randomness = dict(seed=0)
"""


@DATASETS.register_module(force=True)
class ToyData(torch.utils.data.Dataset):
    """Eight numbers x = 0..7 with target 3 x."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x = torch.tensor([float(index)])
        return {"inputs": x, "target": 3 * x}


@MODELS.register_module(force=True)
class ToyModel(BaseModel):
    """A linear layer, behind a normalisation when ``sync``."""

    def __init__(self, sync: bool, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg=init_cfg)
        self.norm = nn.SyncBatchNorm(1) if sync else nn.Identity()
        self.linear = nn.Linear(1, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, inputs, target, mode="tensor"):
        out = self.linear(self.norm(inputs))
        return {"loss": (out - target).square().mean()} if mode == "loss" else [out]


@METRICS.register_module(force=True)
class ToyMetric(BaseMetric):
    """The sum of all predictions."""

    def process(self, data_batch, data_samples) -> None:
        self.results.extend(float(x) for x in data_samples[0])

    def compute_metrics(self, results) -> dict[str, float]:
        return {"total": sum(results)}


@HOOKS.register_module(force=True)
class ToyReport(Hook):
    """Writes what each rank ended with to ``rank<i>.json``, and the metric to ``metric.json``."""

    def after_train(self, runner) -> None:
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        report = {
            "world_size": get_world_size(),
            "iters": runner.iter,
            "wrapper": type(runner.model).__name__,
            "norm": type(model.norm).__name__,
            "weight": model.linear.weight.item(),
            "bias": model.linear.bias.item(),
        }
        (Path(runner.work_dir) / f"rank{get_rank()}.json").write_text(json.dumps(report))

    def after_test_epoch(self, runner, metrics=None) -> None:
        (Path(runner.work_dir) / "metric.json").write_text(json.dumps(metrics))


@HOOKS.register_module(force=True)
class ToyPause(Hook):
    """Waits some seconds before each step."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def before_train_iter(self, *args, **kwargs) -> None:
        time.sleep(self.seconds)


def write_config(folder: Path, more: str = "", *, sync: bool = False) -> Path:
    """Write the toy config, and more text of it, into ``folder``."""
    path = folder / "toy.py"
    path.write_text(CONFIG.format(sync=sync) + more)
    return path
