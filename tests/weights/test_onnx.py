"""The sizes of images that ONNX graphs take."""

import onnx
import onnxruntime
import pytest
import torch
from mmengine.config import Config

from mmssprl.models import TimmBackbone
from mmssprl.weights import description, export_weights, load_network, write_description
from mmssprl.weights import onnx as onnx_graphs
from mmssprl.weights.pooled import random_images

PLAIN = {"type": "ModuleBackbone", "network": "helpers.models.own_nets:one_map"}
ONE_SIZE = {"type": "TimmBackbone", "model_name": "test_maxvit"}
VIT = {"type": "VisionTransformer", "img_size": 32}


def config_of(backbone, **more):
    return Config({"model": {"backbone": backbone, **more}})


def layout_of(px):
    return {"layout": {"image_px": px, "levels": []}}


def exported(folder, capsys):
    """Export a network that was trained at 48 px; return its graph's size, and the network."""
    cfg = config_of(PLAIN, **layout_of(48))
    network = load_network("random", cfg)
    torch.save(network.state_dict(), folder / "w.pth")
    write_description(folder / "w.pth", cfg)
    export_weights(folder / "w.pth", "onnx", folder / "w.onnx")
    about = {each.key: each.value for each in onnx.load(folder / "w.onnx").metadata_props}
    assert about["pixels"] == "8-bit RGB"
    return about["size"], capsys.readouterr().out, network


def test_a_convolutional_network_takes_images_of_any_size(tmp_path, capsys):
    size, said, network = exported(tmp_path, capsys)
    assert size == "any"
    assert "w.onnx: a graph for images of any size\n" in said
    images = torch.randn(1, 3, 57, 90, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(tmp_path / "w.onnx")
    last, _ = session.run(None, {"images": images.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(last), network(images)[0])


def test_a_graph_that_differs_at_other_sizes_is_traced_for_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(onnx_graphs, "largest_difference", lambda *_: 0.01)
    size, said, _ = exported(tmp_path, capsys)
    assert size == "48 x 48"
    assert "w.onnx: a graph for images of 48 x 48 px only\n" in said
    (images,) = onnxruntime.InferenceSession(tmp_path / "w.onnx").get_inputs()
    assert images.shape[1:] == [3, 48, 48]


@pytest.mark.parametrize(
    ("name", "layout", "px"),
    [
        ("test_efficientnet", layout_of(48), 48),  # timm trains it on 160 px
        ("test_maxvit", layout_of(48), 160),  # takes no others
        ("test_efficientnet", {}, 160),
    ],
)
def test_files_are_compared_at_the_size_of_the_training(name, layout, px):
    cfg = config_of({"type": "TimmBackbone", "model_name": name}, **layout)
    first, second = random_images(TimmBackbone(name).eval(), cfg)
    assert (first.shape, second.shape) == ((2, 3, px, px), (3, 3, px, px))


@pytest.mark.parametrize(
    ("backbone", "layout", "px"),
    [
        (VIT, {}, 32),
        (VIT, layout_of(48), 48),
        ({**ONE_SIZE, "options": {"img_size": 192}}, {}, 192),
        (ONE_SIZE, {}, 160),
        (PLAIN, {}, 224),
    ],
)
def test_a_description_without_views_says_the_size_of_the_network(backbone, layout, px):
    assert description.describe(config_of(backbone, **layout))["image_px"] == px
