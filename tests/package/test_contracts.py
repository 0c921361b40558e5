"""What other people build on: names, shapes and methods that no change of ours moves."""

import inspect
from functools import partial

import pytest
import timm
import torch
import torchvision
from helpers.datasets.noise_images import write_noise
from helpers.models.head_cases import LAYOUT, embeddings_of, make_head
from helpers.package.checkout import ROOT
from mmengine import registry as root
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

import mmssprl
from mmssprl import registry
from mmssprl.engine.initial_weights import InitialWeightsHook
from mmssprl.functional import sinkhorn, swapped_prediction_loss
from mmssprl.models import SSPRL, PretrainingModel

pytestmark = pytest.mark.fence

REGISTERED = {
    "TRANSFORMS": ("PyramidCrop",),
    "MODELS": ("SSPRL", "PyramidPreprocessor", "MultiHeadNeck", "SinkhornHead")
    + ("MoCo", "BYOL", "DenseCL", "DetCo", "InsLoc", "MaskCo"),
    "OPTIMIZERS": ("LARC",),
    "DATASETS": ("UnlabeledImages", "CocoMultiLabel"),
}
PUBLIC = {"PretrainOptions", "embed", "export", "finetune", "image_transform", "load_backbone"}
PUBLIC |= {"neighbors", "predict", "pretrain", "probe", "read_embeddings", "report", "select"}


@pytest.mark.parametrize("kind", REGISTERED)
def test_registered_names(kind):
    for name in REGISTERED[kind]:
        assert getattr(registry, kind).get(f"mmssprl.{name}").__name__ == name


def test_public_names():
    assert set(mmssprl.__all__) >= PUBLIC


SCOPES = ["mmengine", "mmpretrain"]
SCOPES += [pytest.param(name, marks=pytest.mark.full) for name in ("mmdet", "mmseg")]


@pytest.mark.parametrize("scope", SCOPES)
def test_other_scopes_reach_our_types_by_the_prefix(scope):
    cfg = {"type": "mmssprl.InitialWeightsHook", "weights": "x.pth"}
    assert isinstance(root.HOOKS.build({**cfg, "_scope_": scope}), InitialWeightsHook)
    with DefaultScope.overwrite_default_scope(scope):
        assert isinstance(root.HOOKS.build(cfg), InitialWeightsHook)
        assert root.MODELS.get("mmssprl.SSPRL") is SSPRL


def test_functions_take_their_numbers_by_name():
    codes = str(inspect.signature(sinkhorn))
    assert codes.startswith("(scores: torch.Tensor, *, epsilon: float = 0.05, num_iters: int = 3")
    loss = str(inspect.signature(swapped_prediction_loss))
    assert loss.startswith("(scores: torch.Tensor, codes: torch.Tensor, *, temperature: float")


def test_the_head_returns_its_terms_by_name():
    losses = make_head(queue_length=3).loss(embeddings_of(LAYOUT))
    pyramid = [f"loss_pyramid_s{s}" for s in range(3)]
    assert [*losses] == [*pyramid, "loss_cross_s1", "loss_cross_s2"]


def test_the_head_holds_its_parts_by_scale():
    head = make_head(queue_length=3)
    assert [tuple(c.weight.shape) for c in head.prototypes] == [(5, 6), (4, 6), (3, 6)]
    assert [tuple(g.weight.shape) for g in head.correlation] == [(5, 4), (5, 3)]
    assert [queue is None for queue in head.queues] == [False, True, True]


def test_a_method_answers_its_protocol():
    hooks = ("on_epoch_length", "before_checkpoint", "after_checkpoint", "health", "loss")
    assert [name for name in hooks if not callable(getattr(PretrainingModel, name))] == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a shipped config that mmengine's plain Runner trained."""
    folder = tmp_path_factory.mktemp("plain")
    cfg = Config.fromfile(ROOT / "configs/ssprl/ssprl_resnet18_scenes.py")
    cfg.custom_imports = {"imports": ["mmssprl"]}
    cfg.model.backbone = {"type": "mmpretrain.ResNet", "depth": 18}
    cfg.model.neck.in_channels = 512
    cfg.train_dataloader.dataset.data_root = str(write_noise(folder, 4))
    cfg.train_dataloader |= {"batch_size": 2, "num_workers": 0, "persistent_workers": False}
    cfg.train_cfg.max_epochs = 1
    cfg.work_dir = str(folder / "run")
    Runner.from_cfg(cfg).train()
    return folder / "run"


def test_a_shipped_config_trains_in_mmengines_runner(run):
    state = torch.load(run / "epoch_1.pth", weights_only=True)["state_dict"]
    assert {name.partition(".")[0] for name in state} >= {"backbone", "neck", "head"}


@pytest.mark.parametrize(
    "make", [torchvision.models.resnet18, partial(timm.create_model, "resnet18")]
)
def test_other_packages_take_the_backbone_file(make, run):
    (file,) = run.glob("*_backbone.pth")
    found = make().load_state_dict(torch.load(file, weights_only=True), strict=False)
    assert found.unexpected_keys == []
    assert found.missing_keys == ["fc.weight", "fc.bias"]
