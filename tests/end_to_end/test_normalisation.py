"""The images that reach a first layer, by the source of the weights and by the command."""

import json
from contextlib import contextmanager

import numpy as np
import onnx
import pytest
import timm
import torch
from helpers.models import own_nets
from mmengine.config import Config
from PIL import Image
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

import mmssprl
from mmssprl.distillation.teacher import load_teacher
from mmssprl.weights import export_weights, write_description

COLOURS = np.array([(10, 120, 250), (200, 30, 60), (90, 220, 20), (140, 140, 160)])
NETS = "helpers.models.own_nets"
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
PLAIN = dict.fromkeys(
    [f"model.data_preprocessor.{name}" for name in ("brightness", "contrast", "saturation", "hue")]
    + ["model.data_preprocessor.grayscale_prob"],
    0.0,
)
"""No augmentation changes a colour."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of one colour each, in two classes."""
    folder = tmp_path_factory.mktemp("photos")
    for index in range(24):
        path = folder / ("dark" if index % 2 else "light") / f"{index:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (48, 40), tuple(COLOURS[index % 4])).save(path)
    return folder


def timms_file(folder):
    torch.manual_seed(1)
    torch.save(timm.create_model("test_vit", num_classes=0).state_dict(), folder / "vit.pth")
    return f"timm/test_vit:{folder / 'vit.pth'}"


def described_file(folder):
    """Weights of a network of timm, whose description has numbers that are not timm's."""
    torch.manual_seed(1)
    path = folder / "resnet_backbone.pth"
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), path)
    backbone = {"type": "TimmBackbone", "model_name": "test_resnet", "out_type": "featmap"}
    own = {"mean": [100.0, 110.0, 120.0], "std": [50.0, 55.0, 60.0]}
    write_description(path, Config({"model": {"backbone": backbone, "data_preprocessor": own}}))
    return str(path)


def plain_file(folder):
    """Weights of a function's network that says nothing of its images."""
    torch.save(own_nets.maps().state_dict(), folder / "own.pth")
    write_description(
        folder / "own.pth",
        Config({"model": {"backbone": {"type": "ModuleBackbone", "network": f"{NETS}:maps"}}}),
    )
    return str(folder / "own.pth")


SOURCES = {
    "json": (described_file, ((100.0, 110.0, 120.0), (50.0, 55.0, 60.0))),
    "timm": (timms_file, ((127.5,) * 3, (127.5,) * 3)),
    "record": (lambda _: f"{NETS}:with_record", ((51.0, 102.0, 153.0), (76.5, 51.0, 25.5))),
    "attributes": (lambda _: f"{NETS}:with_numbers", ((90.0, 80.0, 70.0), (40.0, 50.0, 60.0))),
    "none": (plain_file, IMAGENET),
}
QUICK = ("json", "timm")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SOURCES
    ],
)
def source(request, tmp_path_factory):
    """WEIGHTS of a kind, and the mean and deviation of their images."""
    make, numbers = SOURCES[request.param]
    return make(tmp_path_factory.mktemp("weights")), numbers


@contextmanager
def seen_by_the_first_layer(numbers):
    """Check the images of one colour that a first layer takes within the block."""
    mean, std = map(np.array, numbers)
    black = np.zeros((1, 3))  # teachers are tried with it
    expected = torch.tensor((np.vstack([COLOURS, black]) - mean) / std)  # (5, 3)
    distances = []

    def look(module, inputs):
        if not isinstance(module, nn.Conv2d) or module.in_channels != 3:
            return
        for image in inputs[0].detach().double().flatten(2):  # (3, h w)
            colour = image.mean(dim=1)
            # Networks are also tried with noise and with zeros.
            if image.std(dim=1).max() < 1e-3 and colour.any():
                distances.append((expected - colour).norm(dim=1).min().item())

    handle = register_module_forward_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()
    assert len(distances) > 0
    assert max(distances) < 1e-3


@pytest.fixture(scope="module")
def run(source, photos, tmp_path_factory):
    """The weights of a continued run, whose training saw the right images, and its console."""
    weights, numbers = source
    folder = tmp_path_factory.mktemp("run") / "run"
    said = []
    with seen_by_the_first_layer(numbers):
        written = mmssprl.pretrain(
            photos,
            folder,
            weights=weights,
            epochs=1,
            image_px=32,
            num_workers=0,
            cfg_options=PLAIN,
            log=said.append,
        )
    return written, "\n".join(said)


def as_said(numbers):
    return ", ".join(f"{value:.4g}" for value in numbers)


def test_pretraining_says_the_numbers(run, source):
    _, said = run
    mean, std = map(as_said, source[1])
    assert f"mean {mean}, deviation {std}" in " ".join(said.split())


def test_the_weights_of_the_run_keep_the_numbers(run, source, photos):
    weights, _ = run
    own = json.loads(weights.with_suffix(".json").read_text())["pixels"]
    assert np.allclose([own["mean"], own["std"]], source[1], atol=1e-3)
    with seen_by_the_first_layer(source[1]):
        mmssprl.embed(weights, photos, progress=False)


def test_exports_say_the_numbers(run, source, tmp_path):
    export_weights(run[0], "safetensors", tmp_path / "w.safetensors")
    own = json.loads((tmp_path / "w.json").read_text())["pixels"]
    assert np.allclose([own["mean"], own["std"]], source[1], atol=1e-3)
    report = export_weights(run[0], "onnx", tmp_path / "w.onnx")
    assert np.allclose(report.normalisation[:2], source[1], atol=1e-3)
    about = {each.key: each.value for each in onnx.load(report.file).metadata_props}
    said = [json.loads(about[key]) for key in ("mean", "std")]
    assert np.allclose(said, source[1], atol=1e-3)


def test_teacher(source):
    images = torch.from_numpy(COLOURS.astype(np.uint8))[:, :, None, None].expand(4, 3, 64, 64)
    teacher = load_teacher(source[0])
    with seen_by_the_first_layer(source[1]):
        teacher(images)


def test_embed(source, photos):
    with seen_by_the_first_layer(source[1]):
        mmssprl.embed(source[0], photos, image_px=32, progress=False)


def test_probe(source, photos):
    with seen_by_the_first_layer(source[1]):
        mmssprl.probe(source[0], photos, image_px=32, progress=False)


def test_finetune_then_predict(source, photos, tmp_path):
    with seen_by_the_first_layer(source[1]):
        mmssprl.finetune(
            source[0], photos, "classify", tmp_path / "run", epochs=1, image_px=32, log=str
        )

    with seen_by_the_first_layer(source[1]):
        mmssprl.predict(tmp_path / "run", photos, tmp_path / "out", pictures=0)
