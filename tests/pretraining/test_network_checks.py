"""What the network of a user does that its pre-training would not show."""

import re
from contextlib import nullcontext

import pytest
import torch
from helpers.models import odd_nets
from helpers.pretraining.recipes import CPU, choose, config_of
from mmengine.optim import build_optim_wrapper

from mmssprl.errors import UserValueError
from mmssprl.models import ModuleBackbone
from mmssprl.pretraining.backbones import find_backbone
from mmssprl.registry import MODELS

NETS = "helpers.models.odd_nets"
QUIET = [
    "plain",
    "projection",
    "maps_in_a_dict",
    "norm_eval",
    "shared",
    "with_more_maps_in_training",
    "with_unused_mean",
    "hidden_classifier",
]
FROZEN = (
    r"4 of 6 parameters .* have requires_grad=False .*\(0.0.weight, 0.0.bias, 0.1.weight, \.{3}"
)
UNUSED = r"2 of 10 parameters .* are not used and keep their values \(side.weight, side.bias\)\."
ALONE = "in evaluation mode the features of the backbone cannot be computed for one image: "
MIXED = "in evaluation mode the features of an image differ"


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("partly_frozen", FROZEN),
        ("with_unused_part", UNUSED),
        ("classifier", "the 5 features .* are the outputs of its classifier fc;"),
        ("always_dropped", MIXED),
        ("without_statistics", MIXED),
        ("normalising", "the backbone normalises images itself, by its buffer pixel_mean,"),
        ("normalising_by_one_number", "the backbone normalises images itself, by its buffer"),
        ("checkpointed", r"2 of 10 parameters .* are not used .* \(spare.weight, spare.bias\)"),
        ("dropped_by_a_function", "the backbone returns 1 or 2 outputs, and the last one has oth"),
        ("squeezed", f"{ALONE}UserValueError: "),
        ("pooled_without_statistics", f"{ALONE}ValueError: Expected more than 1 value per chan"),
    ],
)
def test_a_warning(name, warning):
    torch.manual_seed(0)
    (found,) = find_backbone(f"{NETS}:{name}", {64}).warnings
    assert re.match(warning, found), found


@pytest.mark.parametrize("name", QUIET)
def test_no_warning(name):
    assert find_backbone(f"{NETS}:{name}", {64, 32}).warnings == []


def test_warnings_are_printed_with_the_recipe():
    recipe = choose("swav", **CPU, backbone=f"{NETS}:partly_frozen", image_px=64)
    config_of(recipe)
    assert any(re.match(FROZEN, each) for each in recipe.warnings)


@pytest.mark.parametrize(("name", "expected"), [("plain", False), ("fixed_norm", None)])
def test_norms_that_cannot_move_say_nothing(name, expected):
    assert find_backbone(f"{NETS}:{name}", {64}).is_trained is expected


@pytest.mark.parametrize(
    ("name", "weights", "is_told"),
    [
        ("with_frozen_norm", None, True),
        ("norm_eval", None, True),
        ("norm_eval", "own", False),
        ("plain", None, False),
    ],
)
def test_random_weights_need_new_statistics(name, weights, is_told):
    recipe = choose("swav", **CPU, backbone=f"{NETS}:{name}", weights=weights, image_px=64)
    config_of(recipe)
    told = f"{NETS}:{name} keeps the statistics of 1 BatchNorm layer in training"
    assert any(each.startswith(told) for each in recipe.warnings) == is_told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("with_auxiliary_output", "with_auxiliary_output returns 1 or 2 outputs; leave"),
        ("with_smaller_output_in_training", "in_training returns 1 or 2 outputs; leave"),
        ("channels_last", r"channels_last gives \(2, 8, 8, 12\), with the features last"),
        ("without_gradient", "must have a gradient, but .*without_gradient raises RuntimeError"),
        ("lazy", "parameters of .*lazy must have values, but weight has none"),
        ("created_once", "created_once must return a new network at each call, but returns the sa"),
        ("half", r"must be torch.float32, but 0.0.weight is torch.float16; return network.float\("),
    ],
)
def test_a_network_that_would_be_trained_otherwise_is_refused(name, message):
    with pytest.raises(UserValueError, match=message):
        find_backbone(f"{NETS}:{name}", {64})


def test_of_maps_in_a_tuple_in_a_dict_the_last_is_trained():
    assert find_backbone(f"{NETS}:maps_in_a_dict", {64}).channels == 12


def test_a_continued_network_may_share_a_parameter():
    recipe = choose("swav", **CPU, backbone=f"{NETS}:shared", weights="own", image_px=64)
    cfg = config_of(recipe)
    model = MODELS.build(cfg.model)
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    trained = [id(each) for group in wrapper.param_groups for each in group["params"]]
    assert trained.count(id(model.backbone.inner[2].weight)) == 1


def test_a_compiled_network_has_its_own_names():
    own = odd_nets.plain().state_dict()
    assert ModuleBackbone(f"{NETS}:compiled").state_dict().keys() == own.keys()


TOKENS = "helpers.models.token_nets"


@pytest.mark.parametrize("name", ["plain", "with_class", "with_registers"])
@pytest.mark.parametrize("sizes_px", [{64, 32}, {96, 72}, {224}])
def test_tokens_of_patches_are_a_map(name, sizes_px):
    found = find_backbone(f"{TOKENS}:{name}", sizes_px)
    assert (found.channels, found.gives_map) == (64, True)


@pytest.mark.parametrize("name", ["with_one_behind", "with_detections"])
@pytest.mark.parametrize("sizes_px", [{64, 32}, {96, 72}, {224}])
def test_tokens_behind_the_patches_are_refused(name, sizes_px):
    with pytest.raises(UserValueError, match=rf"{name} has other tokens .* return the map"):
        find_backbone(f"{TOKENS}:{name}", sizes_px)


SYNC = r"replace the whole NormRelu of .*:with_norm_relu, .* nn.SyncBatchNorm if .* sync_bn=None"
GROUPED = r"GroupedBatchNorm would replace the whole NormRelu, .* nn.SyncBatchNorm if .* bn_groups"


@pytest.mark.parametrize(
    ("method", "num_devices", "options", "message"),
    [
        ("swav", 2, None, SYNC),
        ("swav", 2, {"sync_bn": None}, None),
        ("swav", 1, None, None),
        ("mocov2", 1, None, GROUPED),
    ],
)
def test_a_norm_with_an_activation_is_not_replaced(method, num_devices, options, message):
    data = {**CPU, "num_devices": num_devices, "image_px": 64, "cfg_options": options}
    recipe = choose(method, **data, backbone=f"{NETS}:with_norm_relu")
    with pytest.raises(UserValueError, match=message) if message else nullcontext():
        MODELS.build(config_of(recipe).model)
