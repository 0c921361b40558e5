import math

import numpy as np
import pytest
import torch
from helpers.config.learning_rates import learning_rates
from helpers.package.checkout import ROOT
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample

from mmssprl.registry import MODELS

pytestmark = pytest.mark.fence

BENCHMARKS = ROOT / "configs" / "benchmarks"
CONFIGS = sorted([*BENCHMARKS.glob("classification/*.py"), *BENCHMARKS.glob("semisup/*.py")])
COCO = BENCHMARKS / "classification/linear_resnet50_1xb128-coslr-100e_coco14.py"
VOC = BENCHMARKS / "classification/linear_resnet50_1xb32-coslr-100e_voc07.py"
SGD = {"type": "SGD", "momentum": 0.9, "weight_decay": 1e-6}


def build(cfg):
    with DefaultScope.overwrite_default_scope("mmssprl"):
        return MODELS.build(cfg.model)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_model_trains_one_step_on_its_own_image_size(path):
    assert len(CONFIGS) == 12
    assert sum("_resnet50_" in each.name for each in CONFIGS) == 5
    cfg = Config.fromfile(path)
    model = build(cfg)
    px = cfg.train_dataloader.dataset.pipeline[1]["scale"]
    assert cfg.test_dataloader.dataset.pipeline[2]["crop_size"] == px
    samples = [DataSample().set_gt_score(torch.ones(cfg.model.head.num_classes))] * 2
    model.train()
    model.loss(torch.zeros(2, 3, px, px), samples)["loss"].backward()
    trains = path.parent.name == "semisup"
    assert all((p.grad is not None) is trains for p in model.backbone.parameters())
    assert all(p.grad is not None for p in model.head.parameters())
    if "_resnet50_" in path.name:
        train, test = (cfg[f"{split}_dataloader"].dataset for split in ("train", "test"))
        assert [step["type"] for step in train.pipeline[1:3]] == ["RandomResizedCrop", "RandomFlip"]
        assert (px, train.pipeline[2]["prob"]) == (224, 0.5)
        resize = {"type": "ResizeEdge", "scale": 256, "edge": "short", "backend": "pillow"}
        assert test.pipeline[1:3] == [resize, {"type": "CenterCrop", "crop_size": 224}]
        assert "fraction" not in test


@pytest.mark.parametrize(
    ("path", "batch", "lr", "num_classes", "dataset", "key", "splits"),
    [
        (COCO, 128, 0.1, 80, "CocoMultiLabel", "data_prefix", ("train2014/", "val2014/")),
        (VOC, 32, 0.03, 20, "VocMultiLabel", "split", ("trainval", "test")),
    ],
    ids=["coco", "voc"],
)
def test_linear_values(path, batch, lr, num_classes, dataset, key, splits):
    cfg = Config.fromfile(path)
    assert (cfg.train_dataloader.batch_size, cfg.train_cfg.max_epochs) == (batch, 100)
    assert cfg.optim_wrapper.optimizer == {**SGD, "lr": lr}
    assert cfg.optim_wrapper.clip_grad == {"max_norm": 10}
    assert cfg.model.head.num_classes == num_classes
    parts = (cfg.train_dataloader.dataset, cfg.test_dataloader.dataset)
    assert [(part.type, part[key]) for part in parts] == [(dataset, split) for split in splits]
    torch.manual_seed(0)
    head = build(cfg).head
    head.init_weights()
    assert torch.equal(head.fc.bias, torch.full((num_classes,), 0.1))
    assert head.fc.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert abs(head.fc.weight.mean().item()) < 3 * 0.01 / math.sqrt(head.fc.weight.numel())


def test_linear_rate_is_a_cosine_over_all_iterations():
    found = learning_rates(Config.fromfile(COCO), torch.nn.Linear(1, 1))
    cosine = 0.1 * (1 + np.cos(np.pi * np.arange(400) / 400)) / 2
    np.testing.assert_allclose(found, cosine[:, None], rtol=1e-6)


@pytest.fixture(scope="module")
def semi_supervised():
    cfg = Config.fromfile(next(BENCHMARKS.glob("semisup/semisup-1percent_resnet50*.py")))
    return cfg, build(cfg)


def test_semi_supervised_rates_fall_at_two_epochs(semi_supervised):
    cfg, model = semi_supervised
    found = learning_rates(cfg, model)
    first = [0.1 if name.startswith("head.") else 0.001 for name, _ in model.named_parameters()]
    factors = np.repeat([1, 0.2, 0.04], [12 * 4, 4 * 4, 4 * 4])
    np.testing.assert_allclose(found, np.outer(factors, first))


def test_semi_supervised_gradients_are_clipped(semi_supervised):
    cfg, model = semi_supervised
    parts = ["backbone", "head"]  # test_hooks.py: each is clipped on its own
    assert cfg.custom_hooks == [{"type": "ClipGradientsHook", "modules": parts, "max_norm": 10}]
    assert [name for name, _ in model.named_children() if name in parts] == parts
