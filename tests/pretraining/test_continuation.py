import pytest
import torch
from helpers.pretraining.recipes import COCO, CPU, choose
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import nn

from mmssprl.config.walk import check_parts
from mmssprl.datasets import UnlabeledImages
from mmssprl.models import TimmBackbone
from mmssprl.pretraining.backbones import Backbone
from mmssprl.pretraining.config import make_config
from mmssprl.pretraining.continuation import layers_of, named_weights
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pyramid import ViewLayout
from mmssprl.weights.backbone import build_model

SMALL = {"epochs": 30, "image_px": 32, "backbone": "resnet18"}


@pytest.fixture
def make(tmp_path):
    """The config and the recipe of a run that goes on from a ResNet-18, or from another network."""
    images = UnlabeledImages.__new__(UnlabeledImages)  # nothing is read
    images.data_root, images.max_bad_share = str(tmp_path), 0.01

    def make(method="ssprl", weights=None, **asked):
        asked = {**SMALL, **asked}
        recipe = choose(method, **CPU, **asked)
        if weights is None:
            weights = tmp_path / "weights.pth"
            backbone = {"type": "ResNet", "depth": 18}
            torch.save(build_model(backbone).state_dict(), weights)
        asked["weights"] = None if weights == "random" else weights
        return make_config(recipe, PretrainOptions(**asked, probe=False), images), recipe

    return make


def rates_of(cfg):
    """The learning rate of each parameter by its name, and the schedulers' last ones."""
    model = build_model(cfg.model)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        optimizer = build_optim_wrapper(model, cfg.optim_wrapper.copy()).optimizer
    names = {id(value): name for name, value in model.named_parameters()}
    groups = optimizer.param_groups
    return {names[id(each)]: group["lr"] for group in groups for each in group["params"]}


def test_the_backbone_learns_at_a_tenth_of_the_rate_and_its_first_stages_slower(make):
    cfg, recipe = make(lr=0.1)
    rates = rates_of(cfg)
    for part, rate in (
        *(("backbone.conv1.weight", 0.01 * 0.71**4), ("backbone.bn1.bias", 0.01 * 0.71**4)),
        *((f"backbone.layer{i}.1.conv1.weight", 0.01 * 0.71 ** (4 - i)) for i in (1, 2, 3, 4)),
    ):
        assert rates[part] == pytest.approx(rate, rel=1e-3), part
    assert {r for n, r in rates.items() if not n.startswith("backbone.")} == {0.1}
    assert len(rates) == len(list(build_model(cfg.model).parameters()))
    last = cfg.param_scheduler[-1]
    assert last.eta_min_ratio == 1 / recipe.method.lr_decay
    assert "eta_min" not in last
    [hook] = [each for each in cfg.custom_hooks if each.type == "ContinuationHook"]
    assert hook == {"type": "ContinuationHook", "heads_first": 3, "bn_momentum": 0.01}
    rows = {name: recipe.rows[name].choice for name in ("heads", "backbone", "BatchNorm")}
    assert rows == {
        "heads": "alone for 3 epochs at most",
        "backbone": "0.1 of the rate, x 0.71 a stage",
        "BatchNorm": "momentum 0.01 in the backbone",
    }
    check_parts(cfg, ())


def test_each_choice_is_an_option(make):
    asked = {"heads_first": 0, "backbone_share": 1.0, "layer_decay": 1.0, "bn_momentum": 0.1}
    cfg, recipe = make(**asked)
    assert "paramwise_cfg" not in cfg.optim_wrapper
    assert "eta_min" in cfg.param_scheduler[-1]
    [hook] = [each for each in cfg.custom_hooks if each.type == "ContinuationHook"]
    assert hook == {"type": "ContinuationHook", "heads_first": 0, "bn_momentum": 0.1}
    names = ("heads", "backbone", "BatchNorm")
    assert all("as asked" in recipe.rows[name].reason for name in names)
    rates = rates_of(make(lr=0.1, backbone_share=0.5, layer_decay=1.0)[0])
    assert {r for n, r in rates.items() if n.startswith("backbone.")} == {0.05}
    rates = rates_of(make(lr=0.1, backbone_share=1.0, layer_decay=0.5)[0])
    assert rates["backbone.layer3.0.conv1.weight"] == pytest.approx(0.05)


@pytest.mark.parametrize("method", ["byol", "mocov2"])
def test_other_methods_go_on_alike(method, make):
    cfg, _ = make(method)
    assert cfg.custom_hooks[-1].type == "ContinuationHook"
    rates = rates_of(cfg)
    assert len(rates) == len([p for p in build_model(cfg.model).parameters() if p.requires_grad])


@pytest.mark.parametrize(
    ("epochs", "chosen"), [(1, 0), (2, 1), (19, 1), (40, 4), (100, 10), (800, 10)]
)
def test_the_heads_learn_alone_for_a_tenth_of_the_epochs(epochs, chosen, make):
    assert make(epochs=epochs)[0].custom_hooks[-1].heads_first == chosen


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"weights": "random", "heads_first": 0}, "heads_first must come with weights"),
        ({"weights": "random", "layer_decay": 0.5, "bn_momentum": 0.1}, "layer_decay, bn_momentum"),
        ({"heads_first": 30}, "heads_first must be below the 30 epochs .* got 30"),
        ({"backbone_share": 0.0}, "backbone_share must be a number above 0, but got 0"),
        ({"layer_decay": 1.5}, "layer_decay must be .* got 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, told, make):
    with pytest.raises(ValueError, match=told):
        make(**asked)


def test_stages_and_blocks_are_found_in_order():
    vit = {"type": "VisionTransformer", "arch": "deit-tiny", "out_type": "avg_featmap"}
    for backbone, first, num in (
        (vit, "backbone.layers.0.", 12),
        ({"type": "ConvNeXt", "arch": "tiny"}, "backbone.stages.0.", 4),
        ({"type": "SwinTransformer", "arch": "tiny"}, "backbone.stages.0.", 4),
    ):
        found, stages = layers_of(build_model(backbone))
        assert (found, stages[0], len(stages)) == ("backbone.", first, num)
    prefix, stages = layers_of(TimmBackbone("test_vit"))
    assert prefix == "backbone.inner."
    assert stages == [f"backbone.inner.blocks.{i}." for i in range(len(stages))]
    assert len(stages) > 1
    assert layers_of(nn.Sequential(nn.Linear(2, 2))) == ("backbone.", [])


def test_weights_that_name_their_network(tmp_path):
    asked = named_weights(PretrainOptions(weights="timm/vit_small_patch14_dinov2:a/b.pth"))
    assert (asked.backbone, asked.weights) == ("timm/vit_small_patch14_dinov2", "a/b.pth")
    asked = named_weights(PretrainOptions(weights="timm/resnet10t", backbone="timm/resnet10t"))
    assert (asked.backbone, asked.weights) == ("timm/resnet10t", "timm/resnet10t")
    assert named_weights(PretrainOptions()) == PretrainOptions()
    with pytest.raises(ValueError, match=r"timm/resnet10t:a are of .* but backbone is resnet18"):
        named_weights(PretrainOptions(weights="timm/resnet10t:a", backbone="resnet18"))


@pytest.mark.parametrize(
    ("backbone", "step"),
    [
        *(("timm/vit_small_patch14_dinov2", 14), ("timm/vit_small_patch16_dinov3", 16)),
        *(("timm/vit_base_patch32_224", 32), ("timm/vit_small_patch8_224", 16), ("resnet18", 16)),
    ],
)
def test_view_sizes_follow_the_patch(backbone, step, monkeypatch):
    network = Backbone(backbone, {"type": "TimmBackbone"}, 4)
    monkeypatch.setattr("mmssprl.pretraining.recipe.find_backbone", lambda *_: network)
    for device in (COCO, CPU):
        recipe = choose(**device, backbone=backbone, variant="small-sampled")
        views = ViewLayout.build(recipe.layout)
        assert {group.px % step for group in views.groups} == {0}
        assert ("for the patch" in recipe.rows["views"].reason) == (step != 16)
    if step == 14:
        assert (views.image_px, recipe.rows["views"].choice[:9]) == (112, "2 x 112 p")
        with pytest.raises(ValueError, match="multiple of 14 from 28 to 2044, .* nearest is 126"):
            choose(**CPU, backbone=backbone, image_px=128)
