"""The names and the layout of detectron2's files, and its own model where the package is there."""

import pickle

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmssprl.weights import export_weights, load_backbone
from mmssprl.weights.key_tables import from_detectron2, to_detectron2

CONFIG = """
model = dict(
    backbone=dict(type="ResNet", depth={depth}, stem_channels=16, base_channels={base},
                  num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(1,)),
    data_preprocessor=dict(std=(50.0, 55.0, 60.0)),
)
"""
NORM = ("weight", "bias", "running_mean", "running_var")


def write_weights(folder, depth, base=16):
    (folder / "c.py").write_text(CONFIG.format(depth=depth, base=base))
    backbone = load_backbone("random", Config.fromfile(folder / "c.py"))
    generator = torch.Generator().manual_seed(2)
    for value in backbone.state_dict().values():
        if value.dim() == 1:
            value.copy_(0.5 + torch.rand(value.shape, generator=generator))
    torch.save(backbone.state_dict(), folder / "w.pth")
    return backbone, str(folder / "w.pth")


def read(path):
    with path.open("rb") as file:
        return pickle.load(file)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("conv1.weight", "stem.conv1.weight"),
        ("bn1.running_mean", "stem.conv1.norm.running_mean"),
        ("layer1.0.conv3.weight", "res2.0.conv3.weight"),
        ("layer3.5.bn2.bias", "res4.5.conv2.norm.bias"),
        ("layer3.22.bn1.running_var", "res4.22.conv1.norm.running_var"),
        ("layer4.0.downsample.0.weight", "res5.0.shortcut.weight"),
        ("layer4.0.downsample.1.weight", "res5.0.shortcut.norm.weight"),
        ("layer4.0.downsample.1.num_batches_tracked", None),
        ("bn1.num_batches_tracked", None),
    ],
)
def test_names(ours, theirs):
    assert to_detectron2(ours) == theirs
    assert theirs is None or from_detectron2(theirs) == ours


@pytest.mark.parametrize("name", ["gn1.weight", "layer1.0.gn1.weight", "fc.weight"])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=f"detectron2.* {name} "):
        to_detectron2(name)
    assert from_detectron2(name) == name


def test_all_names_of_a_bottleneck_network(tmp_path):
    """ResNet-50, two stages: stem, res2 with three blocks, res3 with four."""
    backbone, weights = write_weights(tmp_path, 50)
    report = export_weights(weights, "detectron2", tmp_path / "d.pkl")
    content = read(tmp_path / "d.pkl")
    assert set(content) == {"model", "__author__", "matching_heuristics"}
    assert content["__author__"] == "mmssprl"
    assert content["matching_heuristics"] is True
    layers = ["stem.conv1"]
    for stage, blocks in (("res2", 3), ("res3", 4)):
        layers.append(f"{stage}.0.shortcut")
        for block in range(blocks):
            layers += [f"{stage}.{block}.conv{i}" for i in (1, 2, 3)]
    expected = {f"{layer}.weight" for layer in layers}
    expected |= {f"{layer}.norm.{part}" for layer in layers for part in NORM}
    assert set(content["model"]) == expected
    assert report.matched == len(expected) == 5 * (1 + 2 + 3 * 7)
    assert report.model == "mmpretrain ResNet-50, names mapped back"

    model, state = content["model"], backbone.state_dict()
    for theirs, ours in {
        "stem.conv1.norm.bias": "bn1.bias",
        "res2.0.shortcut.weight": "layer1.0.downsample.0.weight",
        "res3.0.shortcut.norm.running_var": "layer2.0.downsample.1.running_var",
        "res3.3.conv2.weight": "layer2.3.conv2.weight",
        "res3.3.conv3.norm.running_mean": "layer2.3.bn3.running_mean",
    }.items():
        assert model[theirs].dtype == np.float32
        assert np.array_equal(model[theirs], state[ours].numpy()), theirs


def test_the_report_says_which_settings_go_along(tmp_path):
    _, weights = write_weights(tmp_path, 50)
    (note,) = export_weights(weights, "detectron2", tmp_path / "d.pkl").notes
    for setting in (
        "INPUT.FORMAT 'RGB'",
        "MODEL.PIXEL_STD [50.0, 55.0, 60.0]",
        "MODEL.RESNETS.DEPTH 50",
        "MODEL.RESNETS.RES2_OUT_CHANNELS 64",
        "MODEL.RESNETS.STRIDE_IN_1X1 False",
    ):
        assert setting in note


def test_a_swapped_pair_is_found(tmp_path, monkeypatch):
    _, weights = write_weights(tmp_path, 18)
    dump = pickle.dump

    def swap(content, file):
        model = content["model"]
        a, b = "res2.0.conv1.weight", "res2.0.conv2.weight"
        model[a], model[b] = model[b], model[a]
        dump(content, file)

    monkeypatch.setattr(pickle, "dump", swap)
    with pytest.raises(ValueError, match=r"2 changed \(res2.0.conv1.weight, res2.0.conv2.weight\)"):
        export_weights(weights, "detectron2", tmp_path / "d.pkl")
    assert not (tmp_path / "d.pkl").exists()
