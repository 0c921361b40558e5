from pathlib import Path
from unittest import mock

import pytest
import torch
from helpers.weights.export_backbones import write_weights

from mmssprl.weights import default_output, export_weights, onnx
from mmssprl.weights.export import TARGETS


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("narrow"), "narrow")[1]


class TestErrors:
    @pytest.mark.parametrize(
        ("target", "name", "message"),
        [
            ("detectron2", "vit", "VisionTransformer.*pth, safetensors or"),
            ("detectron2", "subclass", "ResNetV1d.*pth, safetensors or"),
            ("detectron2", "deep_stem", "deep_stem=True"),
            ("detectron2", "expansion", "expansion=2"),
            ("detectron2", "caffe", r"style='caffe', dilations=\(1, 1, 1, 2\).*eps=0.001"),
            ("detectron2", "group_norm", "norm='GroupNorm with eps=1e-05'"),
        ],
    )
    def test_backbones_that_a_target_cannot_hold(self, target, name, message, tmp_path):
        _, weights = write_weights(tmp_path, name)
        out = tmp_path / f"out{TARGETS[target]}"
        with pytest.raises(ValueError, match=message):
            export_weights(weights, target, out)
        assert not out.exists()

    def test_files_and_names(self, narrow, tmp_path):
        with pytest.raises(ValueError, match="pth, safetensors, .*'caffe2'"):
            export_weights(narrow, "caffe2", tmp_path / "b.pth")
        with pytest.raises(ValueError, match=r"b\.onnx does not end in \.pth"):
            export_weights(narrow, "pth", tmp_path / "b.onnx")
        with pytest.raises(FileNotFoundError, match="random"):
            export_weights("random", "pth", tmp_path / "b.pth", config="x.py")
        with pytest.raises(ValueError, match="another file"):
            export_weights(narrow, "pth", narrow, overwrite=True)
        (tmp_path / "b.pth").write_text("mine")
        with pytest.raises(FileExistsError, match="b.pth.*overwrite"):
            export_weights(narrow, "pth", tmp_path / "b.pth")
        assert (tmp_path / "b.pth").read_text() == "mine"

    def test_onnx_needs_its_packages_and_a_backbone_that_can_be_traced(
        self, narrow, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(torch.onnx, "export", mock.Mock(side_effect=KeyError("aten::nothing")))
        with pytest.raises(ValueError, match=r"ResNet \(KeyError\)"):
            export_weights(narrow, "onnx", tmp_path / "o.onnx")
        assert list(tmp_path.iterdir()) == []
        monkeypatch.setattr(onnx, "is_importable", lambda name: name == "onnx")
        with pytest.raises(ValueError, match="pip install onnx onnxscript onnxruntime"):
            export_weights(narrow, "onnx", tmp_path / "o.onnx")


def test_default_names(tmp_path):
    assert default_output("a/epoch_2.pth", "safetensors") == Path("a/epoch_2.safetensors")
    assert default_output("epoch_2.pth", "detectron2") == Path("epoch_2_detectron2.pkl")
    assert default_output("epoch_2.pth", "pth") == Path("epoch_2_export.pth")
    assert default_output("w.pth", "onnx") == Path("w.onnx")
    assert default_output("w_backbone.safetensors", "pth") == Path("w_backbone.pth")
