import pytest
import torch
from mmengine.config import Config
from safetensors.torch import save_file
from torch import nn

import mmssprl
from mmssprl.features import FeatureBackbone, load_backbone
from mmssprl.weights import find_config, load_network, write_description


@pytest.mark.parametrize("name", ["a.pth", "a.safetensors"])
def test_a_file_of_weights_becomes_a_model_in_eval_mode(config, tmp_path, name):
    state = load_network("random", Config.fromfile(config), seed=3).state_dict()
    (torch.save if name == "a.pth" else save_file)(state, tmp_path / name)
    write_description(tmp_path / name, Config.fromfile(config))
    model = mmssprl.load_backbone(tmp_path / name, device="cpu")
    assert not any(module.training for module in model.modules())
    for name, value in model.backbone.state_dict().items():
        assert torch.equal(value, state[name])
    assert (model.image_px, model.mean, model.std) == (32, (100, 110, 120), (50, 55, 60))


def test_it_has_the_names_of_timms_models_and_can_be_trained(config):
    model = load_backbone("random", config)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    maps = model.forward_features(images)
    assert maps.shape == (2, 16, 4, 4)
    assert model.num_features == 16
    torch.testing.assert_close(model(images), maps.mean(dim=(2, 3)))
    model(images).sum().backward()
    assert model.backbone.conv1.weight.grad.abs().sum() > 0


def test_without_a_config_supervised_weights_are_a_resnet50():
    cfg = find_config("supervised", None)
    model = FeatureBackbone.of_config(nn.Identity(), cfg)
    assert cfg.model.backbone.to_dict() == {"type": "ResNet", "depth": 50}
    assert (model.image_px, model.mean[0]) == (224, 123.675)


def test_mistakes_name_the_argument_of_the_function(config, tmp_path):
    for px in (0, 100_000):
        with pytest.raises(ValueError, match=f"image_px .* to 2048.* {px}"):
            load_backbone("random", config, image_px=px)
    for device in ("cuda:99", "tpu"):
        with pytest.raises(ValueError, match=f"device .*'auto'.* cpu, but got '{device}'"):
            load_backbone("random", config, device=device)
    swin = tmp_path / "swin.py"
    swin.write_text('model = dict(backbone=dict(type="SwinTransformer", arch="tiny"))')
    with pytest.raises(ValueError, match=r"ResNet, .* SwinTransformer"):
        load_backbone("supervised", swin)
