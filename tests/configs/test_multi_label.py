import math

import pytest
import torch
from helpers.engine.toy_run import write_config
from helpers.package.checkout import ROOT
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.structures import DataSample

from mmssprl.registry import MODELS

pytestmark = pytest.mark.fence

BENCHMARKS = ROOT / "configs" / "benchmarks"
CONFIGS = sorted(
    path for kind in ("classification", "semisup") for path in BENCHMARKS.glob(f"{kind}/*.py")
)
COCO = BENCHMARKS / "classification/linear_resnet50_1xb128-coslr-100e_coco14.py"
VOC = BENCHMARKS / "classification/linear_resnet50_1xb32-coslr-100e_voc07.py"
SEMISUP = {
    percent: BENCHMARKS / f"semisup/semisup-{percent}percent_resnet50_1xb32-steplr-20e_coco14.py"
    for percent in (1, 10, 100)
}
FULL_SIZE = [COCO, VOC, *SEMISUP.values()]
SGD = {"type": "SGD", "momentum": 0.9, "weight_decay": 1e-6}


def build(cfg):
    with DefaultScope.overwrite_default_scope("mmssprl"):
        return MODELS.build(cfg.model)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_model_trains_one_step_on_its_own_image_size(path):
    assert len(CONFIGS) == 12
    cfg = Config.fromfile(path)
    model = build(cfg)
    px = cfg.train_dataloader.dataset.pipeline[1]["scale"]
    assert cfg.test_dataloader.dataset.pipeline[2]["crop_size"] == px
    num_classes = cfg.model.head.num_classes
    samples = [DataSample().set_gt_score(torch.ones(num_classes)) for _ in range(2)]
    model.train()
    loss = model.loss(torch.zeros(2, 3, px, px), samples)["loss"]
    loss.backward()
    trains = path.parent.name == "semisup"
    assert all((p.grad is not None) is trains for p in model.backbone.parameters())
    assert all(p.grad is not None for p in model.head.parameters())


@pytest.mark.parametrize(
    ("path", "batch", "lr", "num_classes", "dataset", "splits"),
    [
        (COCO, 128, 0.1, 80, "CocoMultiLabel", ("train2014/", "val2014/")),
        (VOC, 32, 0.03, 20, "VocMultiLabel", ("trainval", "test")),
    ],
    ids=["coco", "voc"],
)
def test_linear_values(path, batch, lr, num_classes, dataset, splits):
    cfg = Config.fromfile(path)
    assert cfg.train_dataloader.batch_size == batch
    assert cfg.optim_wrapper.optimizer == {**SGD, "lr": lr}
    assert cfg.optim_wrapper.clip_grad == {"max_norm": 10}
    assert cfg.train_cfg.max_epochs == 100
    assert cfg.model.head.num_classes == num_classes
    parts = (cfg.train_dataloader.dataset, cfg.test_dataloader.dataset)
    assert {part.type for part in parts} == {dataset}
    key = "split" if path == VOC else "data_prefix"
    assert tuple(part[key] for part in parts) == splits
    torch.manual_seed(0)
    head = build(cfg).head
    head.init_weights()
    assert torch.equal(head.fc.bias, torch.full((num_classes,), 0.1))
    assert head.fc.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert abs(head.fc.weight.mean().item()) < 3 * 0.01 / math.sqrt(head.fc.weight.numel())


@pytest.mark.parametrize("path", FULL_SIZE, ids=lambda path: path.stem)
def test_images_are_cut_as_the_protocol_says(path):
    cfg = Config.fromfile(path)
    train = cfg.train_dataloader.dataset.pipeline
    assert [step["type"] for step in train[1:3]] == ["RandomResizedCrop", "RandomFlip"]
    assert (train[1]["scale"], train[2]["prob"]) == (224, 0.5)
    test = cfg.test_dataloader.dataset.pipeline
    assert test[1] == {"type": "ResizeEdge", "scale": 256, "edge": "short", "backend": "pillow"}
    assert test[2] == {"type": "CenterCrop", "crop_size": 224}
    assert "fraction" not in cfg.test_dataloader.dataset


@MODELS.register_module(force=True)
class ToyBackboneAndHead(BaseModel):
    """Parts of a classifier by name, whose gradients are ``slopes``: two each, backbone first."""

    def __init__(self, slopes=(0, 0, 0, 0)):
        super().__init__()
        self.backbone = torch.nn.Linear(1, 1)
        self.head = torch.nn.Linear(1, 1)
        self.slopes = slopes

    def forward(self, inputs, target, mode="tensor"):
        parameters = zip(self.slopes, self.parameters(), strict=True)
        return {"loss": sum(slope * parameter.sum() for slope, parameter in parameters)}


class _Rates(Hook):
    """Notes the learning rate that each iteration uses, and the momentum after it."""

    def __init__(self):
        self.rates, self.momenta = [], []

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        self.rates.append(runner.optim_wrapper.get_lr())

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        state = runner.optim_wrapper.optimizer.state
        self.momenta.append([state[p]["momentum_buffer"].item() for p in runner.model.parameters()])


def train(path, tmp_path, **model):
    """Run the schedule of a config with its real runner on a model without a backbone's work."""
    cfg = Config.fromfile(path)
    cfg.train_dataloader = Config.fromfile(write_config(tmp_path)).train_dataloader
    for split in ("val", "test"):
        for part in ("dataloader", "evaluator", "cfg"):
            cfg[f"{split}_{part}"] = None
    cfg.model = {"type": "ToyBackboneAndHead", **model}
    cfg.default_hooks.checkpoint = {"type": "CheckpointHook", "interval": -1, "save_last": False}
    cfg.work_dir = str(tmp_path)
    hook = _Rates()
    runner = Runner.from_cfg(cfg)
    runner.register_hook(hook)
    runner.train()
    return hook


STEPS = 4  # of one epoch on the toy data


def test_linear_rate_is_a_cosine_over_all_iterations(tmp_path):
    found, lr = train(COCO, tmp_path).rates, 0.1
    total = 100 * STEPS
    assert len(found) == total
    for step in (0, 1, total // 4, total // 2, total - 1):
        expected = lr * (1 + math.cos(math.pi * step / total)) / 2
        assert found[step]["lr"] == pytest.approx([expected], rel=1e-6)


def test_semi_supervised_rates_fall_at_epochs_12_and_16_and_gradients_are_clipped(tmp_path):
    # Norms 50 and 20: one limit of 10 for both together would give (5.6, 7.4) and (0, 3.7). A
    # momentum buffer begins as the gradient plus the weight decay of weights in [-1, 1].
    hook = train(SEMISUP[1], tmp_path, slopes=(30, 40, 0, 20))
    assert hook.momenta[0] == pytest.approx([6, 8, 0, 10], abs=2e-6)
    found = hook.rates
    assert len(found) == 20 * STEPS
    for epoch, factor in ((0, 1), (11, 1), (12, 0.2), (15, 0.2), (16, 0.04), (19, 0.04)):
        for step in (epoch * STEPS, (epoch + 1) * STEPS - 1):
            # Weight and bias of the backbone, then of the head.
            expected = [0.001 * factor] * 2 + [0.1 * factor] * 2
            assert found[step]["lr"] == pytest.approx(expected)
