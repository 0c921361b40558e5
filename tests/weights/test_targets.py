import os
import re
import sys
from pathlib import Path

import pytest
import torch
from export_backbones import write_weights

import mmssprl.weights.targets.onnx_file as onnx_file
from mmssprl.weights import default_output, export_weights
from mmssprl.weights.checkpoint_file import read_checkpoint
from mmssprl.weights.targets import TARGETS


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("narrow"), "narrow")[1]


@pytest.mark.parametrize(
    "target", ["backbone", "safetensors", pytest.param("onnx", marks=pytest.mark.slow)]
)
def test_a_folder_whose_name_is_no_utf8(target, narrow, tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    suffix = TARGETS[target].suffixes[0]
    export_weights(narrow, target, folder / f"one{suffix}")  # reads the file, to prove it
    assert [path.name for path in folder.iterdir()] == [f"one{suffix}"]
    if target != "onnx":
        assert read_checkpoint(folder / f"one{suffix}", mmap=True).keys()


class TestErrors:
    @pytest.mark.parametrize(
        ("target", "name", "message"),
        [
            (
                "torchvision",
                "narrow",
                "stem_channels=64, base_channels=64, num_stages=4, but ",
            ),
            ("timm", "narrow", "has stem_channels=16, base_channels=16, num_stages=3; export it"),
            ("mmdet", "vit", r"must get a ResNet, but the backbone of .*vit.py is a Vision"),
            ("detectron2", "subclass", "is a ResNetV1d; export it to backbone, safetensors or"),
            ("mmseg", "deep_stem", "has deep_stem=True; export it to backbone, saf"),
            ("mmdet", "expansion", "with expansion=4, but .* has expansion=2"),
            (
                "detectron2",
                "caffe",
                r"has style='caffe', dilations=\(1, 1, 1, 2\), strides=",
            ),
            ("detectron2", "caffe", "norm='BatchNorm with eps=0.001'; export it to .* or onnx"),
            ("timm", "group_norm", "has norm='GroupNorm with eps=1e-05'"),
        ],
    )
    def test_backbones_that_a_target_cannot_hold(self, target, name, message, tmp_path):
        _, weights = write_weights(tmp_path, name)
        out = tmp_path / f"out{TARGETS[target].suffixes[0]}"
        with pytest.raises(ValueError, match=message):
            export_weights(weights, target, out)
        assert not out.exists()

    def test_files_and_names(self, narrow, tmp_path):
        weights = narrow
        with pytest.raises(ValueError, match="one of backbone, torchvision, .* got 'caffe2'"):
            export_weights(weights, "caffe2", tmp_path / "b.pth")
        with pytest.raises(ValueError, match="timm must end in .safetensors or .pth or .pt, but g"):
            export_weights(weights, "timm", tmp_path / "b.onnx")
        with pytest.raises(FileNotFoundError, match="there is no random; training writes"):
            export_weights("random", "backbone", tmp_path / "b.pth", config="x.py")
        with pytest.raises(ValueError, match="must be another file than the checkpoint"):
            export_weights(weights, "backbone", weights, force=True)
        (tmp_path / "b.pth").write_text("mine")
        with pytest.raises(FileExistsError, match="must not exist yet, but .*b.pth does; pass --f"):
            export_weights(weights, "backbone", tmp_path / "b.pth")
        assert (tmp_path / "b.pth").read_text() == "mine"

    def test_a_backbone_that_cannot_be_traced(self, narrow, tmp_path, monkeypatch):
        def fail(*args, **kwargs):
            raise KeyError("aten::nothing")

        monkeypatch.setattr(torch.onnx, "export", fail)
        with pytest.raises(ValueError, match=r"failed on a ResNet-18 \(KeyError\); export it to b"):
            export_weights(narrow, "onnx", tmp_path / "o.onnx")
        assert list(tmp_path.iterdir()) == []

    def test_onnx_needs_its_packages(self, narrow, tmp_path, monkeypatch):
        monkeypatch.setattr(onnx_file, "is_importable", lambda name: name == "onnx")
        with pytest.raises(ValueError, match="but onnxscript, .*; pip install onnxscript onnxrun"):
            export_weights(narrow, "onnx", tmp_path / "o.onnx")


@pytest.mark.parametrize(
    ("module", "name", "command"),
    [
        ("timm", "resnet18", "pip install timm"),
        ("mmdet.models.backbones.resnet", "narrow", "pip install '(onedl-mmdetection|mmdet)>="),
        (
            "mmseg.models.backbones.resnet",
            "narrow",
            "pip install '(onedl-mmsegmentation|mmsegmentation)>=",
        ),
    ],
)
def test_without_the_package_the_file_is_tried_on_ours(
    module, name, command, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)
    target = module.partition(".")[0]
    out = tmp_path / f"f{TARGETS[target].suffixes[0]}"
    report = export_weights(write_weights(tmp_path, name)[1], target, out)
    assert report.model == "mmpretrain ResNet-18"
    note = report.notes[0]
    assert re.match(rf"{target} cannot be imported \(.*\): its own model was not tried", note)
    assert re.search(command, note)


@pytest.mark.parametrize("target", TARGETS)
def test_a_default_name_has_no_word_twice_and_is_never_the_checkpoint(target):
    for suffix in TARGETS[target].suffixes:
        for stem in ("w", *([f"w_{target}"] if suffix != f".{target}" else [])):
            out = default_output(f"a/{stem}{suffix}", target)
            assert out != Path(f"a/{stem}{suffix}")
            words = re.split(r"[_.]", out.name)
            assert len(words) == len(set(words))
            assert target in words


def test_default_names(tmp_path):
    assert default_output("a/epoch_2.pth", "timm") == Path("a/epoch_2_timm.safetensors")
    assert default_output("epoch_2.pth", "detectron2") == Path("epoch_2_detectron2.pkl")
    assert default_output("epoch_2.pth", "backbone", full=True) == Path("epoch_2_full.pth")
    assert default_output("w.pth", "safetensors", full=True) == Path("w_full.safetensors")
    assert default_output("w.pth", "onnx") == Path("w.onnx")
    assert default_output("w_backbone.pth", "safetensors") == Path("w_backbone.safetensors")
    assert default_output("w_backbone.safetensors", "backbone") == Path("w_backbone.pth")
    assert default_output("w_timm.pth", "timm") == Path("w_timm.safetensors")
    with pytest.raises(ValueError, match="must go to backbone or safetensors, but got timm"):
        default_output("w.pth", "timm", full=True)
