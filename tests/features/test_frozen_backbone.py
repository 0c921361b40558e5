import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

import mmssprl
from mmssprl.features import load_frozen_backbone
from mmssprl.features.extract import extract_split
from mmssprl.features.probe_data import LabelledSplit
from mmssprl.weights import load_backbone


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_a_file_of_weights_becomes_a_model_in_eval_mode(config, tmp_path):
    state = load_backbone("random", Config.fromfile(config), seed=3).state_dict()
    torch.save(state, tmp_path / "a.pth")
    model = mmssprl.load_backbone(tmp_path / "a.pth")
    assert not any(module.training for module in model.modules())
    for name, value in model.backbone.state_dict().items():
        assert torch.equal(value, state[name])
    assert (model.image_px, model.mean, model.std) == (32, (100, 110, 120), (50, 55, 60))


def test_it_maps_prepared_photographs_to_what_probe_scores(config, photo):
    model = mmssprl.load_backbone("random", config)
    prepare = mmssprl.image_transform(model)
    inputs = prepare(Image.open(photo))
    assert type(inputs) is torch.Tensor
    assert (inputs.shape, inputs.dtype) == ((3, 32, 32), torch.float32)
    with torch.no_grad():
        found = model(inputs[None])
    split = LabelledSplit("train", [str(photo)], torch.zeros(1, 1))
    wanted, _ = extract_split(model, split, device=torch.device("cpu"), progress=False)
    torch.testing.assert_close(found, wanted)


def test_arrays_tensors_and_gray_photographs_are_prepared_alike(config, photo):
    prepare = mmssprl.image_transform(mmssprl.load_backbone("random", config, image_px=24))
    pixels = np.array(Image.open(photo))
    wanted = prepare(Image.open(photo))
    assert wanted.shape == (3, 24, 24)
    torch.testing.assert_close(prepare(pixels), wanted)
    torch.testing.assert_close(prepare(torch.from_numpy(pixels).permute(2, 0, 1)), wanted)
    gray = prepare(Image.open(photo).convert("L"))
    assert gray.shape == (3, 24, 24)


def test_gradients_flow(config):
    model = mmssprl.load_backbone("random", config)
    model(torch.ones(1, 3, 32, 32)).sum().backward()
    assert model.backbone.conv1.weight.grad.abs().sum() > 0


def test_without_a_config_supervised_weights_are_a_resnet50(monkeypatch):
    asked = []

    def supervised_state(depth):
        asked.append(depth)
        cfg = Config({"model": {"backbone": {"type": "ResNet", "depth": depth}}})
        return load_backbone("random", cfg).state_dict()

    monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", supervised_state)
    model = load_frozen_backbone("supervised")
    assert (asked, model.image_px, model.mean[0]) == ([50], 224, 123.675)


def test_supervised_weights_are_for_resnets(tmp_path):
    config = tmp_path / "swin.py"
    config.write_text('model = dict(backbone=dict(type="SwinTransformer", arch="tiny"))')
    with pytest.raises(ValueError, match=r"exist for a ResNet, .* is a SwinTransformer; leave"):
        load_frozen_backbone("supervised", config)


def test_sizes_and_missing_configs_are_refused(config, tmp_path):
    for px in (0, 100_000):
        with pytest.raises(ValueError, match=f"image_px must be .* to 2048, but got {px}"):
            load_frozen_backbone("random", config, image_px=px)
    lonely = tmp_path / "lonely" / "a.pth"
    lonely.parent.mkdir()
    torch.save({"conv.weight": torch.zeros(1)}, lonely)
    with pytest.raises(ValueError, match=r"pass --config, or have `python -m mmssprl convert"):
        load_frozen_backbone(lonely)
