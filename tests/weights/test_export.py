import copy
import json
import re
from pathlib import Path
from unittest import mock

import onnxruntime
import pytest
import torch
from helpers.models import own_nets
from mmengine.config import Config
from safetensors import safe_open
from safetensors.torch import load_file

from mmssprl.weights import TARGETS, export_weights, load_network, onnx, write_description
from mmssprl.weights.export import default_output
from mmssprl.weights.pooled import random_images
from mmssprl.weights.targets import Target

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


@pytest.fixture(scope="module")
def custom(tmp_path_factory):
    """The file and config of a user's network that was trained on images of four channels."""
    folder = tmp_path_factory.mktemp("custom")
    network = {"type": "ModuleBackbone", "network": "helpers.models.own_nets:wrapped"}
    held = {"pixels": {"channels": 4, "dtype": "uint16"}}
    layout = {"image_px": 48, "levels": []}
    model = {"backbone": network, "data_preprocessor": held, "layout": layout}
    Config({"model": model}).dump(folder / "own.py")
    torch.save(own_nets.wrapped().state_dict(), folder / "own.pth")
    return folder / "own.pth", folder / "own.py"


def features(backbone, images=IMAGES):
    with torch.no_grad():
        return backbone(images)[-1]


def check(got, want, error=1e-5):
    assert got.shape == want.shape
    assert torch.allclose(got, want, rtol=0, atol=error * float(want.abs().max()))


def test_files_are_compared_on_images_as_in_training(custom):
    _, config = custom
    images = next(random_images(own_nets.wrapped(), Config.fromfile(config)))
    assert images.shape == (2, 4, 48, 48)


class TestRoundTrips:
    """Each file is loaded by the documented call of its package."""

    @pytest.mark.parametrize(("target", "read"), [("pth", torch.load), ("safetensors", load_file)])
    def test_a_custom_network_is_loaded_by_its_own_package(self, custom, target, read, tmp_path):
        file, config = custom
        report = export_weights(file, target, tmp_path / f"w.{target}", config=config)
        assert report.difference <= report.tolerance == 1e-5
        found = read(report.file)
        network = own_nets.wrapped()
        network.load_state_dict(found)
        for name, value in torch.load(file).items():
            assert torch.equal(found[name], value), name

    def test_safetensors_say_that_they_are_of_torch(self, narrow, tmp_path):
        """transformers and diffusers refuse a file that does not."""
        report = export_weights(narrow[1], "safetensors", tmp_path / "w.safetensors")
        with safe_open(report.file, framework="pt") as file:
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
    def test_onnxruntime_runs_a_graph_of_one_file(self, tmp_path, name):
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


# Tracing a graph takes seconds. `TestRoundTrips` runs it outside the package.
@pytest.mark.parametrize("target", [name for name in TARGETS if name != "onnx"])
def test_a_wrong_file_is_not_kept(target, narrow, tmp_path, monkeypatch):
    write = TARGETS[target].write

    def write_another(backbone, cfg, path):
        other = copy.deepcopy(backbone)
        other.bn1.bias.data = other.bn1.weight.data
        write(other, cfg, path)

    monkeypatch.setattr(Target, "write", property(lambda _: write_another))
    out = tmp_path / f"w{TARGETS[target].suffix}"
    out.write_text("old")
    with pytest.raises(ValueError, match=f"features of the {target} file .* but differ by"):
        export_weights(narrow[1], target, out, overwrite=True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_the_page_of_weights_lists_the_targets():
    page = (Path(__file__).parents[2] / "docs" / "weights.md").read_text()
    table = page.partition("| `--to` | writes |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"\| `(\w+)` \| (.*) \|", table))
    assert rows == {name: target.holds for name, target in TARGETS.items()}


class TestDescriptions:
    """NAME.json next to the exported file."""

    @pytest.fixture
    def others(self, narrow, tmp_path):
        """Where a file is exported to, next to the description of other weights."""
        out = tmp_path / "w.safetensors"
        other = Config.fromfile(Path(narrow[1]).with_suffix(".py"))
        other.model.data_preprocessor = {"mean": [1.0, 2.0, 3.0], "std": [4.0, 5.0, 6.0]}
        write_description(out, other)
        return out

    def test_an_equal_one_may_exist(self, narrow, tmp_path):
        out = tmp_path / "w.safetensors"
        export_weights(narrow[1], "safetensors", out)
        out.unlink()
        export_weights(narrow[1], "safetensors", out)
        assert out.exists()

    def test_of_other_weights_is_refused(self, narrow, others):
        match = r"w.json describes other weights \(pixels differ\)"
        with pytest.raises(FileExistsError, match=match):
            export_weights(narrow[1], "safetensors", others)
        assert not others.exists()

    def test_of_other_weights_is_overwritten_if_asked(self, narrow, others):
        export_weights(narrow[1], "safetensors", others, overwrite=True)
        own = json.loads(others.with_suffix(".json").read_text())
        assert own["pixels"]["mean"][0] == 123.675

    def test_json_of_something_else_is_never_overwritten(self, narrow, tmp_path):
        labels = tmp_path / "flowers.json"
        labels.write_text('{"images": [], "annotations": []}')
        with pytest.raises(FileExistsError, match=r"flowers.json .* JSON of something else"):
            export_weights(narrow[1], "pth", tmp_path / "flowers.pth", overwrite=True)
        assert labels.read_text() == '{"images": [], "annotations": []}'
        assert not (tmp_path / "flowers.pth").exists()


def test_the_default_name_says_the_target_if_the_suffix_does_not():
    assert default_output("a/epoch_2.pth", "safetensors") == Path("a/epoch_2.safetensors")
    assert default_output("a/epoch_2.pth", "detectron2") == Path("a/epoch_2_detectron2.pkl")
    assert default_output("a/epoch_2.pth", "pth") == Path("a/epoch_2_export.pth")


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("vit", "VisionTransformer.*pth, safetensors or onnx"),
            ("expansion", "expansion=2"),
            ("caffe", r"style='caffe', dilations=\(1, 1, 1, 2\).*eps=0.001"),
        ],
    )
    def test_backbones_that_detectron2_cannot_hold(self, name, message, tmp_path):
        _, weights = write_weights(tmp_path, name)
        out = tmp_path / "out.pkl"
        with pytest.raises(ValueError, match=message):
            export_weights(weights, "detectron2", out)
        assert not out.exists()

    def test_an_unknown_target(self, narrow):
        with pytest.raises(ValueError, match=r"pth, safetensors, .*'caffe2'"):
            export_weights(narrow[1], "caffe2")

    def test_the_checkpoint_itself_as_output(self, narrow):
        with pytest.raises(ValueError, match="not be the checkpoint"):
            export_weights(narrow[1], "pth", narrow[1], overwrite=True)

    def test_a_backbone_that_torch_cannot_trace(self, narrow, tmp_path, monkeypatch):
        monkeypatch.setattr(torch.onnx, "export", mock.Mock(side_effect=KeyError("aten::nothing")))
        with pytest.raises(ValueError, match=r"ResNet \(KeyError\); export it to pth or safetens"):
            export_weights(narrow[1], "onnx", tmp_path / "o.onnx")
        assert list(tmp_path.iterdir()) == []

    def test_missing_packages_of_onnx(self, narrow, tmp_path, monkeypatch):
        monkeypatch.setattr(onnx, "is_importable", lambda name: name == "onnx")
        with pytest.raises(ValueError, match="pip install onnx onnxscript onnxruntime"):
            export_weights(narrow[1], "onnx", tmp_path / "o.onnx")
