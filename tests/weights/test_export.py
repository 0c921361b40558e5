import json
from pathlib import Path
from unittest import mock

import onnxruntime
import pytest
import torch
from helpers.models import own_nets
from mmengine.config import Config
from safetensors import safe_open
from safetensors.torch import load_file

from mmssprl.weights import export, export_weights, load_network, onnx, write_description
from mmssprl.weights.export import TARGETS, _images, default_output, write

IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(3))
BACKBONES = {
    "narrow": "type='ResNet', depth=18, stem_channels=16, base_channels=16, num_stages=3, "
    "strides=(1, 2, 2), dilations=(1, 1, 1), out_indices=(2,)",
    "vit": "type='VisionTransformer', img_size=32, patch_size=16, out_type='avg_featmap', "
    "arch=dict(embed_dims=24, num_layers=1, num_heads=2, feedforward_channels=24)",
    "caffe": "type='ResNet', depth=50, stem_channels=16, base_channels=16, style='caffe', "
    "strides=(1, 2, 2, 1), dilations=(1, 1, 1, 2), norm_cfg=dict(type='SyncBN', eps=1e-3)",
    "expansion": "type='ResNet', depth=50, stem_channels=16, base_channels=16, expansion=2",
}


def write_weights(folder, name):
    """A backbone whose every tensor differs from an initial one; returns it and its file."""
    (folder / f"{name}.py").write_text(f"model = dict(backbone=dict({BACKBONES[name]}))")
    backbone = load_network("random", Config.fromfile(folder / f"{name}.py"))
    generator = torch.Generator().manual_seed(1)
    for value in backbone.state_dict().values():
        if value.dim() == 1:
            value.copy_(0.5 + torch.rand(value.shape, generator=generator))
        elif value.dim() == 0:
            value.fill_(7)
    torch.save(backbone.state_dict(), folder / f"{name}.pth")
    write_description(folder / f"{name}.pth", Config.fromfile(folder / f"{name}.py"))
    return backbone, str(folder / f"{name}.pth")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("narrow"), "narrow")


def features(backbone, images=IMAGES):
    with torch.no_grad():
        return backbone(images)[-1]


def check(got, want, error=1e-5):
    assert got.shape == want.shape
    assert torch.allclose(got, want, rtol=0, atol=error * float(want.abs().max()))


class TestRoundTrips:
    """Each file is loaded by the documented call of its package."""

    def test_pth_and_safetensors_of_a_custom_network(self, tmp_path):
        network = {"type": "ModuleBackbone", "network": "helpers.models.own_nets:wrapped"}
        held = {"pixels": {"channels": 4, "dtype": "uint16"}}
        layout = {"image_px": 48, "levels": []}
        cfg = Config({"model": {"backbone": network, "data_preprocessor": held, "layout": layout}})
        cfg.dump(tmp_path / "own.py")
        images = next(_images(own_nets.wrapped(), cfg))
        assert images.shape == (2, 4, 48, 48)  # as it was trained
        torch.save(state := own_nets.wrapped().state_dict(), tmp_path / "own.pth")
        for target in ("pth", "safetensors"):
            report = export_weights(tmp_path / "own.pth", target, config=tmp_path / "own.py")
            assert report.difference <= report.tolerance == 1e-5
        files = tmp_path / "own_export.pth", tmp_path / "own.safetensors"
        for read in (torch.load(files[0]), load_file(files[1])):
            own_nets.wrapped().load_state_dict(read)
            assert all(torch.equal(read[k], v) for k, v in state.items())
        with safe_open(files[1], framework="pt") as file:
            assert file.metadata() == {"format": "pt"}

    @pytest.mark.full
    @pytest.mark.parametrize(("package", "name"), [("mmdet", "narrow"), ("mmseg", "caffe")])
    def test_openmmlab_reads_it(self, name, tmp_path, package):
        backbone, weights = write_weights(tmp_path, name)
        export_weights(weights, "pth", tmp_path / "m.pth")
        spec = Config.fromfile(tmp_path / f"{name}.py").model.backbone
        registry = __import__(f"{package}.registry", fromlist=["MODELS"]).MODELS
        init_cfg = {"type": "Pretrained", "checkpoint": str(tmp_path / "m.pth")}
        model = registry.build({**spec, "type": f"{package}.ResNet", "init_cfg": init_cfg})
        model.init_weights()
        model.eval()
        check(features(model), features(backbone))

    @pytest.mark.parametrize("name", ["narrow", "vit"])
    def test_onnx(self, tmp_path, name):
        backbone, weights = write_weights(tmp_path, name)
        report = export_weights(weights, "onnx", tmp_path / "o.onnx")
        assert report.difference <= report.tolerance == 1e-4
        assert [path.name for path in tmp_path.glob("o*")] == ["o.onnx"]  # one file
        session = onnxruntime.InferenceSession(tmp_path / "o.onnx")
        sizes = [(1, 32, 32), (5, 32, 32)] if name == "vit" else [(1, 64, 96), (5, 32, 64)]
        for batch, height, width in sizes:
            images = torch.randn(batch, 3, height, width)
            last, pooled = session.run(["feature_map", "pooled"], {"images": images.numpy()})
            want = features(backbone, images)
            check(torch.from_numpy(last), want, error=1e-4)
            want = want if name == "vit" else want.mean(dim=(2, 3))
            check(torch.from_numpy(pooled), want, error=1e-4)


@pytest.mark.parametrize("target", ["pth", "safetensors", "detectron2"])
def test_a_wrong_file_is_not_kept(target, narrow, tmp_path, monkeypatch):
    def changed(backbone, cfg, target, path):
        state = dict(backbone.state_dict())
        state["bn1.bias"] = state["bn1.weight"]
        with mock.patch.object(backbone, "state_dict", return_value=state):
            write(backbone, cfg, target, path)

    monkeypatch.setattr(export, "write", changed)
    out = tmp_path / f"w{TARGETS[target]}"
    out.write_text("old")
    with pytest.raises(ValueError, match="but differ by"):
        export_weights(narrow[1], target, out, overwrite=True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_description_of_other_weights_is_not_left_beside_an_exported_file(narrow, tmp_path):
    out, other = tmp_path / "w.safetensors", Config.fromfile(Path(narrow[1]).with_suffix(".py"))
    export_weights(narrow[1], "safetensors", out)
    out.unlink()
    export_weights(narrow[1], "safetensors", out)  # the same description may stay
    out.unlink()
    other.model.data_preprocessor = {"mean": [1.0, 2.0, 3.0], "std": [4.0, 5.0, 6.0]}
    write_description(out, other)
    with pytest.raises(FileExistsError, match=r"w.json describes other weights \(pixels differ\)"):
        export_weights(narrow[1], "safetensors", out)
    assert not out.exists()
    export_weights(narrow[1], "safetensors", out, overwrite=True)
    assert json.loads(out.with_suffix(".json").read_text())["pixels"]["mean"][0] == 123.675


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("vit", "VisionTransformer.*pth, safetensors or"),
            ("expansion", "expansion=2"),
            ("caffe", r"style='caffe', dilations=\(1, 1, 1, 2\).*eps=0.001"),
        ],
    )
    def test_backbones_that_detectron2_cannot_hold(self, name, message, tmp_path):
        _, weights = write_weights(tmp_path, name)
        out = tmp_path / f"out{TARGETS['detectron2']}"
        with pytest.raises(ValueError, match=message):
            export_weights(weights, "detectron2", out)
        assert not out.exists()

    def test_the_checkpoint_and_other_targets(self, narrow):
        _, weights = narrow
        with pytest.raises(ValueError, match=r"pth, safetensors, .*'caffe2'"):
            export_weights(weights, "caffe2")
        with pytest.raises(ValueError, match="not be the checkpoint"):
            export_weights(weights, "pth", weights, overwrite=True)
        assert default_output("a/epoch_2.pth", "detectron2") == Path("a/epoch_2_detectron2.pkl")

    def test_onnx_needs_its_packages_and_a_backbone_that_can_be_traced(
        self, narrow, tmp_path, monkeypatch
    ):
        _, weights = narrow
        monkeypatch.setattr(torch.onnx, "export", mock.Mock(side_effect=KeyError("aten::nothing")))
        with pytest.raises(ValueError, match=r"ResNet \(KeyError\)"):
            export_weights(weights, "onnx", tmp_path / "o.onnx")
        assert list(tmp_path.iterdir()) == []
        monkeypatch.setattr(onnx, "is_importable", lambda name: name == "onnx")
        with pytest.raises(ValueError, match="pip install onnx onnxscript onnxruntime"):
            export_weights(weights, "onnx", tmp_path / "o.onnx")
