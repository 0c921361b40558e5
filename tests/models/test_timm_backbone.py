import copy

import pytest
import timm
import torch
from mmengine.runner.checkpoint import get_state_dict, load_state_dict
from torch import nn

from mmssprl.errors import UserRuntimeError, UserValueError
from mmssprl.models import TimmBackbone, timm_backbone
from mmssprl.models.grouped_batch_norm import group_batch_norms
from mmssprl.models.timm_backbone import check_timm, map_of_tokens
from mmssprl.registry import MODELS

IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def pair():
    """A network whose BatchNorms contain activations, and timm's own with the same weights."""
    backbone = MODELS.build({"type": "TimmBackbone", "model_name": "test_efficientnet"}).eval()
    own = timm.create_model("test_efficientnet", num_classes=0).eval()
    own.load_state_dict(backbone.state_dict())
    return backbone, own


def test_names_in_state_dicts_are_timms(pair):
    backbone, own = pair
    assert list(backbone.state_dict()) == list(own.state_dict())


def test_the_size_of_images_is_timms(pair):
    assert pair[0].img_size == (160, 160)


@torch.no_grad()
def test_features_are_timms(pair):
    backbone, own = pair
    (pooled,) = backbone(IMAGES)
    assert torch.equal(pooled, own(IMAGES))


@torch.no_grad()
def test_maps_are_timms(pair):
    _, own = pair
    maps = TimmBackbone("test_efficientnet", out_type="featmap").eval()
    maps.load_state_dict(own.state_dict())
    assert torch.equal(maps(IMAGES)[0], own.forward_features(IMAGES))


@torch.no_grad()
def test_mmengines_checkpoints_have_timms_names(pair):
    """mmengine walks through the modules itself to save and load them."""
    backbone, own = pair
    model = nn.ModuleDict({"backbone": copy.deepcopy(backbone)})
    saved = {key: value.clone() for key, value in get_state_dict(model).items()}
    assert list(saved) == [f"backbone.{key}" for key in own.state_dict()]
    for value in model.parameters():
        value.zero_()
    load_state_dict(model, saved, strict=True)
    torch.testing.assert_close(dict(model.state_dict()), saved, rtol=0, atol=0)


def num_activations(network):
    return sum(isinstance(module, nn.SiLU) for module in network.modules())


@torch.no_grad()
@pytest.mark.parametrize(
    "convert",
    [nn.SyncBatchNorm.convert_sync_batchnorm, lambda network: group_batch_norms(network, 1)],
    ids=["SyncBN", "groups"],
)
def test_replaced_batch_norms_keep_their_activations(pair, convert):
    backbone, own = pair
    converted = convert(copy.deepcopy(backbone)).eval()
    assert not any(type(module) is nn.BatchNorm2d for module in converted.modules())
    assert list(converted.state_dict()) == list(own.state_dict())
    if not any(isinstance(module, nn.SyncBatchNorm) for module in converted.modules()):
        assert torch.equal(converted(IMAGES)[0], own(IMAGES))  # SyncBN has no CPU kernel
    assert num_activations(converted) == num_activations(own) > 0


def test_an_unknown_network_is_refused():
    with pytest.raises(UserValueError, match="'test_resnett'.*test_resnet"):
        TimmBackbone("test_resnett")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("vit_small_patch16_dinov33", "did you mean vit_small_patch16_dinov3_qkvb?"),
        ("vit_small_dinov3", "did you mean vit_small_patch16_dinov3_qkvb?"),
        ("vit_7b_patch16_dinov33", "timm.list_models() names all."),  # there is no such form
        ("vit_small_patch14_dinov22", "did you mean vit_small_patch14_dinov2?"),
        ("convnext_tinyy", "did you mean convnext_tiny?"),
    ],
)
def test_a_network_that_lacks_the_biases_of_its_file_is_not_proposed(name, remedy):
    with pytest.raises(UserValueError) as caught:
        check_timm(name)
    assert str(caught.value).endswith(remedy)


def test_an_unknown_kind_of_output_is_refused():
    with pytest.raises(UserValueError, match="out_type.*'map'"):
        TimmBackbone("test_resnet", out_type="map")


def test_a_missing_timm_is_named(monkeypatch):
    monkeypatch.setattr(timm_backbone, "is_importable", lambda _: False)
    with pytest.raises(UserRuntimeError, match=r"pip install .mmssprl\[timm\]"):
        TimmBackbone("test_resnet")


@torch.no_grad()
def test_features_that_are_no_map_are_refused():
    network = TimmBackbone("crossvit_tiny_240", out_type="featmap").eval()
    with pytest.raises(UserValueError, match="the features of timm/crossvit_tiny_240 are a list"):
        network(IMAGES)


def test_tokens_that_are_no_grid_are_refused():
    with pytest.raises(ValueError, match="returns 50 tokens for 224 x 224 px, which are no grid"):
        map_of_tokens(torch.zeros(1, 50, 2), torch.zeros(1, 3, 224, 224))
