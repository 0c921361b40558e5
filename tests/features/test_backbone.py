import pytest
import timm
import torch
from mmengine.config import Config
from safetensors.torch import save_file
from torch import nn

import mmssprl
from mmssprl.features import FeatureBackbone, load_backbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing.linear import probe_all
from mmssprl.reporting.pictures.feature_maps import draw_feature_maps
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


def noise():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_it_has_the_names_of_timms_models(config):
    model = load_backbone("random", config)
    images = noise()
    maps = model.forward_features(images)
    assert maps.shape == (2, 16, 4, 4)
    assert model.num_features == 16
    torch.testing.assert_close(model(images), maps.mean(dim=(2, 3)))


def test_it_can_be_trained(config):
    model = load_backbone("random", config)
    model(noise()).sum().backward()
    assert model.backbone.conv1.weight.grad.abs().sum() > 0


def test_without_a_config_supervised_weights_are_a_resnet50():
    cfg = find_config("supervised", None)
    model = FeatureBackbone.of_config(nn.Identity(), cfg)
    assert cfg.model.backbone.to_dict() == {"type": "ResNet", "depth": 50}
    assert (model.image_px, model.mean[0]) == (224, 123.675)


def test_a_file_of_a_network_of_timm(tmp_path):
    torch.manual_seed(1)
    own = timm.create_model("test_vit", num_classes=0).eval()
    torch.save(own.state_dict(), tmp_path / "w.pth")
    model = load_backbone(f"timm/test_vit:{tmp_path / 'w.pth'}", image_px=96)
    image = torch.randint(0, 256, (2, 3, 160, 160), dtype=torch.uint8)
    expected = own((image / 255 - 0.5) / 0.5)  # its mean and deviation
    torch.testing.assert_close(model(model.normalise(image)), expected, atol=1e-4, rtol=1e-4)
    small = model.normalise(image)[..., :96, :64]  # images of any size
    assert model.feature_map(small).shape == (2, 64, 6, 4)
    assert model(small).shape == (2, 64)


def of_timm(name, folder):
    """Return WEIGHTS of a network of timm with random weights in a file."""
    torch.manual_seed(1)
    torch.save(timm.create_model(name, num_classes=0).state_dict(), folder / "w.pth")
    return f"timm/{name}:{folder / 'w.pth'}"


@pytest.mark.parametrize(
    ("name", "px"),
    [
        ("test_maxvit", 160),  # one size only
        ("test_vit", 224),  # built for any size
        ("test_efficientnet", 224),  # takes any size, but timm trains it on 160 px
    ],
)
def test_the_usual_size_is_one_that_the_network_takes(name, px, tmp_path):
    model = load_backbone(of_timm(name, tmp_path))
    assert model.image_px == px
    assert model.num_features > 0  # runs it on an image of that size


def test_views_of_the_training_come_before_the_size_of_the_network():
    layout = {"image_px": 96, "levels": []}
    network = {"type": "TimmBackbone", "model_name": "test_maxvit"}
    cfg = Config({"model": {"backbone": network, "layout": layout}})
    assert load_backbone("random", cfg).image_px == 96


FUNCTION = "helpers.models.own_nets:maps"


def test_a_function_draws_its_weights_by_the_seed():
    first, second = (load_backbone(FUNCTION, seed=3).backbone.state_dict() for _ in range(2))
    assert all(map(torch.equal, first.values(), second.values()))


def test_random_weights_next_to_a_function_are_refused(tmp_path):
    both = [FUNCTION, "random"]
    with pytest.raises(ValueError, match="'random' weights beside .*:maps would be those"):
        draw_feature_maps(both, [torch.zeros(8, 8, 3).numpy()], image_px=32)
    with pytest.raises(ValueError, match="'random' weights beside .*:maps would be those"):
        probe_all(both, tmp_path, FeatureOptions())


@pytest.mark.parametrize("px", [0, 100_000])
def test_a_size_out_of_range(px, config):
    with pytest.raises(ValueError, match=f"image_px .* to 2048.* {px}"):
        load_backbone("random", config, image_px=px)


@pytest.mark.parametrize("device", ["cuda:99", "tpu"])
def test_an_unknown_device(device, config):
    with pytest.raises(ValueError, match=f"device .*'auto'.* cpu, but got '{device}'"):
        load_backbone("random", config, device=device)


def test_supervised_weights_of_another_network(tmp_path):
    swin = tmp_path / "swin.py"
    swin.write_text('model = dict(backbone=dict(type="SwinTransformer", arch="tiny"))')
    with pytest.raises(ValueError, match=r"ResNet, .* SwinTransformer"):
        load_backbone("supervised", swin)
