"""The names and the layout of detectron2's files, and its own model where the package is there."""

import pickle
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from mmengine.config import Config
from torch import nn

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


@pytest.fixture
def without_detectron2(monkeypatch):
    monkeypatch.setitem(sys.modules, "detectron2", None)


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


def test_all_names_of_a_bottleneck_network(tmp_path, without_detectron2):
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


def test_the_report_says_what_was_not_tried_and_which_settings_go_along(
    tmp_path, without_detectron2
):
    _, weights = write_weights(tmp_path, 50)
    notes = export_weights(weights, "detectron2", tmp_path / "d.pkl").notes
    assert notes[0].startswith("detectron2 cannot be imported (")
    assert "its own model was not tried; pip install 'git+https" in notes[0]
    assert notes[1] == (
        "In detectron2: INPUT.FORMAT 'RGB', MODEL.PIXEL_MEAN [123.675, 116.28, 103.53], "
        "MODEL.PIXEL_STD [50.0, 55.0, 60.0], MODEL.RESNETS.DEPTH 50, "
        "MODEL.RESNETS.STEM_OUT_CHANNELS 16, MODEL.RESNETS.RES2_OUT_CHANNELS 64, "
        "MODEL.RESNETS.WIDTH_PER_GROUP 16, MODEL.RESNETS.STRIDE_IN_1X1 False, "
        "MODEL.RESNETS.NORM 'SyncBN', MODEL.BACKBONE.FREEZE_AT 0"
    )


def test_a_swapped_pair_is_found(tmp_path, without_detectron2, monkeypatch):
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


class Conv(nn.Conv2d):
    """A convolution that owns its norm, as detectron2's do."""

    def __init__(self, inputs, outputs, px, stride=1):
        super().__init__(inputs, outputs, px, stride, px // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(super().forward(x))


class Block(nn.Module):
    def __init__(self, inputs, width, outputs, stride):
        super().__init__()
        self.shortcut = Conv(inputs, outputs, 1, stride) if inputs != outputs else None
        self.conv1 = Conv(inputs, width, 1)
        self.conv2 = Conv(width, width, 3, stride)
        self.conv3 = Conv(width, outputs, 1)

    def forward(self, x):
        y = self.conv3(self.conv2(self.conv1(x).relu()).relu())
        return (y + (x if self.shortcut is None else self.shortcut(x))).relu()


class StandIn(nn.Module):
    """What detectron2 builds from these settings, for depth 50 and two stages."""

    def __init__(self, settings, channels):
        super().__init__()
        r = {k.removeprefix("MODEL.RESNETS."): v for k, v in settings.items()}
        assert (r["DEPTH"], r["OUT_FEATURES"], r["STRIDE_IN_1X1"]) == (50, ["res3"], False)
        inputs, outputs = r["STEM_OUT_CHANNELS"], r["RES2_OUT_CHANNELS"]
        width = r["WIDTH_PER_GROUP"]
        self.stem = nn.Sequential()
        self.stem.conv1 = Conv(channels, inputs, 7, 2)
        self.res2 = nn.Sequential(
            Block(inputs, width, outputs, 1), *(Block(outputs, width, outputs, 1) for _ in "12")
        )
        wide = 2 * outputs
        self.res3 = nn.Sequential(
            Block(outputs, 2 * width, wide, 2), *(Block(wide, 2 * width, wide, 1) for _ in "123")
        )

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem.conv1(x).relu(), 3, 2, 1)
        return {"res3": self.res3(self.res2(x))}


class Settings(dict):
    def merge_from_list(self, items):
        self.update(zip(items[::2], items[1::2], strict=True))


@pytest.fixture
def detectron2(monkeypatch):
    """A stand-in for the package: its names of modules, layers and settings."""
    modules = {
        name: ModuleType(f"detectron2{name}")
        for name in ("", ".config", ".layers", ".modeling", ".modeling.backbone")
    }
    modules[".config"].get_cfg = Settings
    modules[".layers"].ShapeSpec = lambda channels: channels
    modules[".modeling.backbone"].build_resnet_backbone = StandIn
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"detectron2{name}", module)
    return modules


def test_a_model_of_another_package_takes_the_file(tmp_path, detectron2):
    _, weights = write_weights(tmp_path, 50)
    report = export_weights(weights, "detectron2", tmp_path / "d.pkl")
    assert report.model == "detectron2 ResNet-50"
    assert (report.matched, report.missing) == (120, ())
    assert report.map_difference <= 1e-5
    assert len(report.notes) == 1


def test_a_package_that_cannot_be_imported_or_cannot_build_the_network(
    tmp_path, detectron2, monkeypatch
):
    _, weights = write_weights(tmp_path, 18)
    report = export_weights(weights, "detectron2", tmp_path / "narrow.pkl")
    assert report.model == "mmpretrain ResNet-18, names mapped back"
    assert "builds ResNet-18 and -34 with 64 channels only" in report.notes[0]
    monkeypatch.setitem(sys.modules, "detectron2.modeling.backbone", None)
    _, weights = write_weights(tmp_path, 50)
    report = export_weights(weights, "detectron2", tmp_path / "d.pkl")
    assert report.notes[0].startswith("detectron2 cannot be imported (import of")
