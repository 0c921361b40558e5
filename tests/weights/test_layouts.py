"""The one reader of weights, by files in the layouts of many projects."""

from types import SimpleNamespace

import pytest
import timm
import torch
from helpers.weights import published_checkpoints as published
from helpers.weights.published_checkpoints import other, under
from mmengine.config import Config
from safetensors.torch import load_file
from torch import nn

import mmssprl
from mmssprl.engine.adapted_backbone import fit_backbone
from mmssprl.engine.initial_weights import InitialWeightsHook
from mmssprl.pretraining.backbones import Backbone
from mmssprl.pretraining.continuation import check_weights
from mmssprl.weights import (
    convert_weights,
    export_weights,
    find_config,
    load_network,
    start_state,
)
from mmssprl.weights.checkpoint_prefixes import find_network

RESNET = {"type": "ResNet", "depth": 18, "base_channels": 8}
CONFIG = Config({"model": {"backbone": RESNET}})
_STATE = "state_dict/"
_VISSL = "classy_state_dict/base_model/model/"
_SWA = "callbacks/StochasticWeightAveraging/average_model_state/"
LAYOUTS = {
    "swav": "module.=T module.projection_head.=head module.prototypes.=rows",
    "moco": published.MOCO,
    "densecl": f"{_STATE}=queue {_STATE}encoder_q.0.=t {_STATE}encoder_q.1.mlp.=head "
    f"{_STATE}encoder_k.0.=o {_STATE}backbone.=T",
    "byol": f"{_STATE}online_net.0.=T {_STATE}online_net.1.mlp.=head {_STATE}target_net.0.=o",
    "mmselfsup": f"{_STATE}backbone.=T {_STATE}momentum_encoder.module.0.=o {_STATE}neck.=head "
    "message_hub/=history",
    "ours": f"{_STATE}backbone.=T {_STATE}key_encoder.backbone.=o {_STATE}=queue",
    "dino": "student/module.backbone.=o teacher/backbone.=T teacher/head.=head =args",
    "torchvision": "=W",
    "detectron2": "model/backbone.bottom_up.=T:detectron2:arrays "
    "model/backbone.fpn_lateral2.=rows:arrays =epoch",
    "compiled": "model._orig_mod.backbone.=W",
    "moments by name": "model/=W optimizer/exp_avg/=m",
    "wrapped stage": "model/=W:wrapped",
    "timm model_ema": "model/=x model_ema/=W",
    "modelEMA": "model/=x modelEMA/=W",
    "ema_state_dict": f"{_STATE}=x ema_state_dict/=W",
    "mmengine's, swapped": f"{_STATE}backbone.=T ema_state_dict/=steps "
    "ema_state_dict/module.backbone.=o",
    "ema of parameters alone": "model/=W ema/=x:parameters",
    "ema without counters": "model/=x ema/=W:uncounted",
    "swa": "model/=x swa_model/=steps swa_model/module.=W",
    "Lightning, averaged": f"{_STATE}=W current_model_state/=x averaging_state/=steps",
    "Lightning SWA": f"{_STATE}net.=x {_SWA}net.=W",
    "Sequential": "=T:sequential",
    "lightly DINO": "student_backbone.=o:sequential teacher_backbone.=T:sequential",
    "MoCo v3": f"optimizer/=adam {_STATE}module.base_encoder.=T "
    f"{_STATE}module.base_encoder.fc.=head {_STATE}module.momentum_encoder.=o",
    "VISSL DINO": f"{_VISSL}trunk/_feature_blocks.=o "
    "classy_state_dict/loss/momentum_teacher.trunk._feature_blocks.=T",
}
FILES = {"torchvision": "w.safetensors", "detectron2": "w.pkl"}
"""Names of files that decide how they are written; others are ``w.pth``."""
WITHOUT_COUNTERS = ("detectron2", "ema without counters")


def prefixes_of(name):
    """Prefix of the network that is to be read, and those of its copies."""
    found = {"TW": [], "twox": []}
    for place, kind, _ in published.parts_of(LAYOUTS[name]):
        for kinds, prefixes in found.items():
            if kind in [*kinds]:
                prefixes.append(place.replace("/", ".").replace("_orig_mod.", ""))
    return *found["TW"], *found["twox"]


def write_layout(name, trunk, folder):
    content = published.content_of(LAYOUTS[name], trunk)
    return published.save(content, folder / FILES.get(name, "w.pth"))


@pytest.fixture(scope="module")
def trunk():
    torch.manual_seed(0)
    return published.trunk_of(published.randomise(published.Narrow()))


def assert_is(state, trunk):
    """All tensors, bit by bit, and counters where the file has them."""
    assert [key for key, value in trunk.items() if not torch.equal(state[key], value)] == []
    assert state.keys() == trunk.keys()


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_command_reads_the_same_backbone(name, trunk, tmp_path, capsys):
    prefix, *others = prefixes_of(name)
    file = write_layout(name, trunk, tmp_path)
    has_counters = name not in WITHOUT_COUNTERS
    if not has_counters:
        trunk = {k: v * 0 if k.endswith("num_batches_tracked") else v for k, v in trunk.items()}
    cfg = find_config(str(file), None)
    assert cfg.model.backbone == RESNET
    assert_is(load_network(str(file), cfg, seed=9).state_dict(), trunk)
    out = capsys.readouterr().out
    assert ("detectron2's own networks have BGR" in out) == (name == "detectron2")
    printed = [line for line in out.splitlines() if "read from" in line]
    chosen = f"{prefix!r} (not {', '.join(map(repr, others))})"
    line = f"{file}: weights read from {chosen}; `convert --prefix` chooses another."
    assert printed == ([line] if others else [])

    report = convert_weights(file, tmp_path / "ours" / "w.pth")
    assert (report.network.prefix, list(report.network.others)) == (prefix, others)
    assert report.completed == ({} if has_counters else {"num_batches_tracked": 21})
    assert report.kept == {}
    assert_is(torch.load(report.weights, weights_only=True), trunk)


def started(file):
    """The weights that `pretrain` starts from."""
    backbone = load_network("random", CONFIG)
    recipe = SimpleNamespace(backbone=Backbone("resnet18", RESNET, 64))
    check_weights(str(file), backbone, recipe)
    return start_state(str(file), wanted=backbone.state_dict())


def trained_from(file):
    """The weights that `train` and `finetune` start from."""
    runner = SimpleNamespace(iter=0, model=nn.Module(), cfg=CONFIG)
    runner.model.backbone = load_network("random", CONFIG)
    InitialWeightsHook(str(file)).before_train(runner)
    return runner.model.backbone.state_dict()


def fitted(file):
    """The weights in a transfer config whose own backbone is wider."""
    cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": 18}, "head": {}}})
    fit_backbone(cfg, str(file))
    assert (cfg.model.backbone, cfg.model.head.in_channels) == (RESNET, 64)
    return load_network(str(file), cfg).state_dict()


READERS = {
    "probe": lambda file: mmssprl.load_backbone(file).backbone.state_dict(),  # embed and others
    "export": lambda file: load_file(export_weights(file, "safetensors").file),
    "convert": lambda file: torch.load(convert_weights(file, file.with_name("c.pth")).weights),
    "pretrain": started,
    "train": trained_from,
    "finetune": fitted,
}


@pytest.mark.parametrize("reader", READERS)
class TestReaders:
    def test_take_the_average(self, reader, trunk, tmp_path):
        assert_is(READERS[reader](write_layout("lightly DINO", trunk, tmp_path)), trunk)

    def test_ask_which_of_two_networks_is_meant(self, reader, trunk, tmp_path):
        names = ("best_model.", "model.")
        content = {**under(names[0], trunk), **under(names[1], other(trunk))}
        file = published.save(content, tmp_path / "w.pth")
        match = rf"w\.pth holds several .*: {names[0]!r}, {names[1]!r}; .*`convert --prefix`"
        with pytest.raises(ValueError, match=match) as caught:
            READERS[reader](file)
        assert str(caught.value).count("w.pth") == 1
        report = convert_weights(file, tmp_path / "c.pth", prefix=names[0])
        assert_is(torch.load(report.weights), trunk)

    def test_refuse_a_quantised_network(self, reader, trunk, tmp_path):
        content = {k: (40 * v).to(torch.int8) if v.dim() == 4 else v for k, v in trunk.items()}
        file = published.save(content, tmp_path / "w.pth")
        match = r"w\.pth.* 21 quantised \(conv1\.weight torch\.int8"
        with pytest.raises(ValueError, match=match):
            READERS[reader](file)


def test_the_wanted_shapes_decide_between_networks(trunk, tmp_path):
    wide = load_network("random", Config({"model": {"backbone": {"type": "ResNet", "depth": 18}}}))
    file = published.save({"a": trunk, "b": wide.state_dict()}, tmp_path / "w.pth")
    for wanted, prefix in ((trunk, "a."), (wide.state_dict(), "b.")):
        found = find_network(file, wanted)
        assert found.prefix == prefix
        assert_is(found.tensors, wanted)


def test_an_average_is_found_by_a_short_word(trunk, tmp_path):
    file = published.save({"model": trunk, "model_avg": other(trunk)}, tmp_path / "w.pth")
    assert find_network(file, trunk).prefix == "model_avg."


def test_of_two_networks_that_are_no_resnets_one_is_to_be_saved_alone(tmp_path):
    wanted = {"blocks.0.norm1.weight": torch.ones(2)}
    content = {"a": wanted, "b": {"blocks.0.norm1.weight": torch.zeros(2)}}
    file = published.save(content, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"'a\.', 'b\.'; save the one that you need alone with to"):
        find_network(file, wanted)


@pytest.mark.parametrize("reader", [name for name in READERS if name != "convert"])
def test_a_teacher_that_is_another_network_is_no_average(reader, trunk, tmp_path):
    """As in mmrazor's distillation of a ResNet-50 from a ResNet-101."""
    deep = {**other(trunk), "layer1.2.conv1.weight": trunk["layer1.1.conv1.weight"]}
    own = {**under("architecture.backbone.", trunk), **under("teacher.backbone.", deep)}
    file = published.save({"state_dict": own}, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"w\.pth holds several networks .*teacher.*architecture"):
        READERS[reader](file)


def test_wanted_names_stay_if_another_project_uses_them_too(trunk, tmp_path):
    own = published.inside("_orig_mod", published.sequential(trunk))
    own = {key.replace("4.", "4._orig_mod.", 1): value for key, value in own.items()}
    file = published.save({"net": own}, tmp_path / "w.pth")
    assert_is(find_network(file, own).tensors, own)


def test_a_prefix_chooses_another_network(trunk, tmp_path):
    file = write_layout("dino", trunk, tmp_path)
    found = find_network(file, prefix="student")
    assert (found.prefix, found.others) == ("student.module.backbone.", ())
    assert not any(value.any() for value in found.tensors.values())


def test_a_prefix_of_no_tensor_is_refused(trunk, tmp_path):
    file = write_layout("dino", trunk, tmp_path)
    match = r"no tensor of .*w\.pth begins with the prefix nobody\.; .*student\.module"
    with pytest.raises(ValueError, match=match):
        find_network(file, prefix="nobody")


def test_an_empty_prefix_chooses_the_network_without_one(trunk, tmp_path):
    file = published.save({**trunk, **under("ema.", other(trunk))}, tmp_path / "w.pth")
    assert find_network(file).prefix == "ema."
    assert_is(find_network(file, prefix="").tensors, trunk)


@pytest.mark.parametrize("prefix", ["net", "net.", "net._orig_mod"])
def test_a_prefix_may_lack_the_point_or_name_a_wrapper(prefix, trunk, tmp_path):
    content = {**trunk, **under("ema.", other(trunk))}
    file = published.save(under("net._orig_mod.", content), tmp_path / "w.pth")
    assert_is(find_network(file, prefix=prefix).tensors, trunk)


def test_a_network_of_two_resnets_is_read_whole(trunk, tmp_path):
    own = {**under("rgb.", trunk), **under("flow.", other(trunk))}
    file = published.save({"state_dict": under("module.", own)}, tmp_path / "w.pth")
    assert_is(start_state(str(file), wanted=own), own)


@pytest.mark.parametrize("name", ["dino", "MoCo v3"])
def test_transformers_are_read_but_not_converted(name, tmp_path, capsys):
    wanted = timm.create_model("test_vit", num_classes=0).state_dict()
    file = write_layout(name, wanted, tmp_path)
    assert_is(start_state(str(file), wanted=wanted), wanted)
    prefix, copy = prefixes_of(name)
    line = f"{file}: weights read from {prefix!r} (not {copy!r}).\n"
    assert capsys.readouterr().out == line
    with pytest.raises(ValueError, match=r"must be a ResNet .*w\.pth .*--config"):
        convert_weights(file, tmp_path / "c.pth")
