from dataclasses import replace

import pytest
import torch
from helpers.models import own_nets
from helpers.pretraining.recipes import COCO, CPU, choose, config_of
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from mmssprl.pretraining import continuation
from mmssprl.pretraining.continuation import is_anchored, named_weights
from mmssprl.pretraining.known_backbones import BACKBONES, Backbone
from mmssprl.pretraining.methods import CONTINUED_GAIN, UNANCHORED_LOSS, WHY_CONTINUED
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pyramid import ViewLayout
from mmssprl.weights import write_description
from mmssprl.weights.backbone import build_model, load_network

NETS = "helpers.models.own_nets"
MAPS = f"{NETS}:maps"


@pytest.fixture
def make(tmp_path):
    """The config of a run that continues from a ResNet-18, its hook, and its recipe."""
    torch.save(build_model({"type": "ResNet", "depth": 18}).state_dict(), tmp_path / "weights.pth")

    def make(method="ssprl", weights=tmp_path / "weights.pth", **asked):
        asked = {"epochs": 30, "image_px": 32, "backbone": "resnet18", **asked}
        recipe = choose(method, **CPU, **asked, weights=weights)
        cfg = config_of(recipe)
        [hook] = [hook for hook in cfg.custom_hooks if hook.type == "ContinuationHook"]
        hook.pop("type")
        return cfg, hook, recipe

    return make


def rates_of(cfg):
    """The learning rate of each trained parameter by its name."""
    model = build_model(cfg.model)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        optimizer = build_optim_wrapper(model, cfg.optim_wrapper.copy()).optimizer
    lr_of = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    return {name: lr_of[id(p)] for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("method", ["ssprl", "byol", "mocov2"])
def test_the_backbone_learns_at_a_tenth_of_the_rate(method, make):
    cfg, hook, recipe = make(method, lr=0.1)
    for name, rate in rates_of(cfg).items():
        expected = 0.01 if name.startswith("backbone.") else 0.1
        assert rate == pytest.approx(expected), name
    assert "eta_min" not in cfg.param_scheduler[-1]
    assert hook == {"heads_first": 3}
    assert recipe.rows["heads"].choice == "alone for 3 epochs"
    assert recipe.rows["backbone"].choice == "0.1 of the rate"


@pytest.mark.parametrize(
    ("asked", "anchor"),
    [
        ({}, "weights.pth"),
        ({"method": "swav-small", "teacher": "weights.pth"}, "weights.pth"),
        ({"weights": "own", "backbone": MAPS}, MAPS),
        ({"method": "byol"}, None),
        ({"weights": "own", "backbone": f"{NETS}:vector"}, None),
    ],
)
def test_a_form_of_ssprl_with_a_map_keeps_the_features_of_its_start(
    asked, anchor, make, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    cfg, _, recipe = make(**{"weights": "weights.pth", **asked})
    hooks = [hook.teacher for hook in cfg.custom_hooks if "teacher" in hook]
    assert [hook.removeprefix(f"{tmp_path}/") for hook in hooks] == [anchor] * bool(anchor)
    assert (cfg.model.type == "AnchoredSSPRL") is bool(anchor)
    assert ("teacher" in recipe.rows) is bool(anchor)


@pytest.mark.parametrize(("method", "num_small"), [(None, 0), ("swav-small", 6)])
def test_a_continued_training_has_small_views_only_if_asked(method, num_small, make):
    _, _, recipe = make(method)
    assert (recipe.method.key, recipe.cfg.layout.num_small) == (method or "swav", num_small)
    assert ("method" in recipe.rows) is (method is None)
    if method is None:
        assert recipe.rows["method"].reason == WHY_CONTINUED


def test_the_heads_learn_alone_for_a_tenth_of_the_epochs(make):
    chosen = [make(epochs=epochs)[1].heads_first for epochs in (1, 2, 19, 40, 800)]
    assert chosen == [0, 1, 1, 4, 10]


@pytest.mark.parametrize(
    ("method", "asked", "said"),
    [
        ("byol", {}, "as asked"),  # a file of nobody knows what
        ("byol", {"weights": "supervised"}, f"ImageNet's weights lost {UNANCHORED_LOSS} points"),
        ("ssprl", {"weights": "own", "backbone": f"{NETS}:vector"}, "--teacher own also keeps"),
        ("ssprl", {}, "as asked"),  # keeps its maps
    ],
)
def test_a_start_without_a_teacher_has_its_own_number(method, asked, said, make, monkeypatch):
    monkeypatch.setattr(continuation, "check_weights", lambda *args: None)
    reason = make(method, **asked)[2].rows["weights"].reason
    assert said in reason
    assert (reason == "as asked") == (said == "as asked")


def test_a_start_keeps_the_style_of_its_weights(make, tmp_path, monkeypatch):
    own = Config({"model": {"backbone": {"type": "ResNet", "style": "caffe"}}})
    content = {"meta": {"cfg": own.pretty_text}, "state_dict": torch.load(tmp_path / "weights.pth")}
    torch.save(content, tmp_path / "caffe.pth")
    # A tensor that a small network has, too.
    monkeypatch.setattr("mmssprl.weights.backbone._HAS_STYLE", "layer1.0.conv1.weight")
    cfg, _, _ = make("byol", weights=tmp_path / "caffe.pth")
    assert cfg.model.backbone.style == "caffe"


def test_a_file_of_ours_has_the_number_of_such_files(make, tmp_path):
    cfg, *_ = make("byol")
    write_description(tmp_path / "weights.pth", cfg)
    reason = make("byol")[2].rows["weights"].reason
    assert (
        reason == f"as asked; from SwAV's weights continuing added {CONTINUED_GAIN} points of mAP"
    )


def test_weights_name_their_network():
    asked = named_weights(PretrainOptions(weights="timm/vit_small_patch14_dinov2:a/b.pth"))
    assert (asked.backbone, asked.weights) == ("timm/vit_small_patch14_dinov2", "a/b.pth")
    asked = named_weights(PretrainOptions(weights="timm/resnet10t", backbone="timm/resnet10t"))
    assert (asked.backbone, asked.weights) == ("timm/resnet10t", "timm/resnet10t")
    with pytest.raises(ValueError, match=r"timm/resnet10t:a .* backbone is resnet18"):
        named_weights(PretrainOptions(weights="timm/resnet10t:a", backbone="resnet18"))


@pytest.mark.parametrize("teacher", [None, MAPS])
def test_weights_of_a_function_name_their_network(teacher):
    asked = named_weights(PretrainOptions(weights=MAPS, teacher=teacher))
    assert (asked.backbone, asked.weights) == (MAPS, "own")


@pytest.mark.parametrize("teacher", [None, MAPS])
def test_a_function_is_anchored_if_it_is_its_own_teacher(teacher):
    asked = named_weights(PretrainOptions(weights=MAPS, teacher=teacher))
    assert is_anchored(asked) is (teacher is not None)


def test_a_checkpoint_in_the_folder_of_a_run_names_its_network(tmp_path):
    (tmp_path / "epoch_3.pth").touch()
    cfg = Config({"model": {"backbone": {"type": "TimmBackbone", "model_name": "resnet10t"}}})
    write_description(tmp_path / "run_backbone.pth", cfg)
    asked = named_weights(PretrainOptions(weights=tmp_path / "epoch_3.pth"))
    assert asked.backbone == "timm/resnet10t"


def test_weights_of_ours_name_their_network(tmp_path):
    (tmp_path / "w.pth").touch()
    asked = PretrainOptions(weights=tmp_path / "w.pth")
    assert named_weights(asked) == asked
    for backbone, name in (
        ({"type": "ResNet", "depth": 18, "zero_init_residual": True}, "resnet18"),
        ({"type": "ResNet", "depth": 50, "style": "caffe"}, "resnet50"),
        ({"type": "TimmBackbone", "model_name": "resnet10t"}, "timm/resnet10t"),
        ({"type": "ModuleBackbone", "network": MAPS}, MAPS),
        (dict(BACKBONES["vit-small"].cfg), "vit-small"),
    ):
        cfg = Config({"model": {"type": "SSPRL", "backbone": backbone}})
        write_description(tmp_path / "w.pth", cfg)
        assert named_weights(asked).backbone == name, name
    assert named_weights(replace(asked, backbone="resnet34")).backbone == "resnet34"
    narrow = {"type": "ResNet", "depth": 18, "base_channels": 16}
    write_description(tmp_path / "w.pth", Config({"model": {"backbone": narrow}}))
    with pytest.raises(ValueError, match="ResNet that pretrain cannot build, .*base_channels"):
        named_weights(asked)


@pytest.mark.parametrize(("patch", "step"), [(14, 14), (32, 32), (8, 16), (16, 16)])
def test_view_sizes_follow_the_patch(patch, step, monkeypatch):
    name = f"timm/vit_small_patch{patch}_dinov2"
    network = Backbone(name, {"type": "TimmBackbone"}, 4)
    monkeypatch.setattr("mmssprl.pretraining.choose.find_backbone", lambda *_: network)
    for device in (COCO, CPU):
        recipe = choose(**device, backbone=name, method="ssprl-small-sampled")
        views = ViewLayout.build(recipe.cfg.layout)
        assert {group.px % step for group in views.groups} == {0}
    if step == 14:
        assert views.image_px == 112
        with pytest.raises(ValueError, match="14 from 28 to 2044, .* nearest is 126"):
            choose(**CPU, backbone=name, image_px=128)


def test_a_trained_module_is_recognised(make):
    cfg, hook, recipe = make(weights="own", backbone=f"{NETS}:trained", lr=0.1)
    assert (hook, recipe.rows["weights"].choice) == ({"heads_first": 3}, "own")
    assert "weights" not in cfg
    assert recipe.warnings == []
    for name, warns in (("maps", False), ("trained", True), ("scaled", True)):
        recipe = choose(**CPU, epochs=30, image_px=32, backbone=f"{NETS}:{name}")
        config_of(recipe)
        assert any(f":{name} seems to be trained" in text for text in recipe.warnings) == warns
    with pytest.raises(ValueError, match="weights 'own' are for a backbone .* is resnet18 of 3"):
        make(weights="own", backbone="resnet18")


def test_an_untrained_module_that_is_continued_is_told(make):
    for name, warns in (("maps", True), ("trained", False)):
        recipe = make(weights="own", backbone=f"{NETS}:{name}", lr=0.1)[-1]
        assert any(f":{name} seems to be untrained" in text for text in recipe.warnings) == warns


def test_a_module_starts_from_a_file_with_its_names(make, tmp_path):
    file, state = tmp_path / "own.pth", own_nets.maps().state_dict()
    torch.save({"state_dict": state}, file)
    cfg, hook, _ = make(weights=file, backbone=MAPS, lr=0.1)
    assert hook == {"heads_first": 3}
    rates = {rate for name, rate in rates_of(cfg).items() if name.startswith("backbone.")}
    assert rates == {0.1 * 0.1}
    assert load_network(str(file), cfg).state_dict().keys() == state.keys()
    torch.save({key: value for key, value in state.items() if "fc" not in key}, file)
    with pytest.raises(ValueError, match=r"own.pth must fit .*:maps, but got 2 missing .fc"):
        make(weights=file, backbone=MAPS)
