"""What a file looks like, by networks of timm on the meta device, and what a misfit says."""

import json

import pytest
import timm
import torch
import torchvision

from mmssprl.models import TimmBackbone
from mmssprl.weights import check_fit, find_config
from mmssprl.weights.architecture import architecture_of

NETWORKS = {
    "vit_small_patch16_224": "a ViT of width 384 with 12 blocks and 16 px patches",
    "swin_tiny_patch4_window7_224": "a Swin of width 96 with 2, 2, 6, 2 blocks and 4 px patches",
    "resnet18": "a ResNet-18 of width 64, as timm/resnet18",
    "resnet50": "a ResNet-50 of width 64, as timm/resnet50",
    "resnet101d": "a ResNet-101 of width 64",
    "seresnet50": "a ResNet-50 of width 64",
    "resnet50_gn": "a ResNet-50 of width 64",
    "wide_resnet50_2": "a ResNet-50 of width 128",
    "resnext50_32x4d": "a ResNeXt-50 of width 128",
    "convnext_tiny": "a ConvNeXt of widths 96, 192, 384, 768 with 3, 3, 9, 3 blocks",
    "convnext_base": "a ConvNeXt of widths 128, 256, 512, 1024 with 3, 3, 27, 3 blocks",
    "efficientnet_b0": "an EfficientNet or MobileNet of timm of widths 32, 1280 "
    "with 1, 2, 2, 3, 3, 4, 1 blocks",
    "mobilenetv3_small_100": "an EfficientNet or MobileNet of timm of widths 16, 1024 "
    "with 1, 2, 3, 2, 3, 1 blocks",
}
OF_DINO = {
    "vit_small_patch14_dinov2": "a ViT of DINOv2 of width 384 with 12 blocks and 14 px patches",
    "vit_base_patch14_reg4_dinov2": "a ViT of DINOv2 of width 768 with 12 blocks and 14 px patches",
    "vit_large_patch14_dinov2": "a ViT of DINOv2 of width 1024 with 24 blocks and 14 px patches",
    "vit_small_patch16_dinov3": "a ViT of DINOv3 of width 384 with 12 blocks and 16 px patches",
    "vit_small_plus_patch16_dinov3_qkvb": "a ViT of DINOv3 of width 384 with 12 blocks and "
    "16 px patches",
    "vit_base_patch16_dinov3_qkvb": "a ViT of DINOv3 of width 768 with 12 blocks and 16 px patches",
}


def state_of(name, **options):
    """The tensors of a network of timm, without values."""
    with torch.device("meta"):
        return timm.create_model(name, num_classes=0, **options).state_dict()


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_timm_are_recognised(name):
    assert str(architecture_of(state_of(name))) == NETWORKS[name]


@pytest.mark.parametrize("name", OF_DINO)
def test_networks_of_dino_are_named(name):
    assert str(architecture_of(state_of(name))) == f"{OF_DINO[name]}, as timm/{name}"


@pytest.mark.parametrize("name", ["vgg11", "efficientnet_b0", "swin_t", "vit_b_16", "densenet121"])
def test_networks_of_torchvision_are_recognised(name):
    with torch.device("meta"):
        state = torchvision.models.get_model(name).state_dict()
    assert str(architecture_of(state)) == "a network of torchvision"


def test_a_network_is_found_below_a_prefix():
    state = {f"teacher.backbone.{key}": value for key, value in state_of("resnet18").items()}
    found = architecture_of({"queue": torch.ones(1), **state})
    assert str(found) == NETWORKS["resnet18"]


def test_names_of_the_authors_of_convnext_are_told_from_timms():
    shapes = {"downsample_layers.0.0.weight": (96, 3, 4, 4), "stages.0.0.dwconv.weight": (96, 1)}
    state = {name: torch.empty(shape) for name, shape in shapes.items()}
    assert "its authors' names (take timm's file" in str(architecture_of(state))


@pytest.mark.parametrize(
    "key", ["layer1.0.conv1.weight", "blocks.0.norm1.weight", "layers.0.blocks.0.attn.qkv.weight"]
)
def test_tensors_of_other_shapes_are_not_recognised(key):
    names = {key, "layer1.0.conv2.weight", "patch_embed.proj.weight"}
    assert architecture_of({name: torch.ones(1) for name in names}) is None


@pytest.mark.parametrize("name", ["vgg", "test_byobnet", "mixer_s32_224", "hrnet_w18_small"])
def test_other_networks_are_not_recognised(name):
    state = state_of(name) if name != "vgg" else {"a.weight": torch.ones(1)}
    assert architecture_of(state) is None


def misfit(state, expected, weights="w.pth"):
    """What the message of files that do not fit says after the remedy."""
    with pytest.raises(ValueError, match="every weight of") as caught:
        check_fit(state, expected, weights=weights, owner="the config", remedy="give others.")
    return str(caught.value).partition("give others.")[2].strip()


@pytest.fixture(scope="module")
def resnet():
    return state_of("resnet18")


def test_a_file_of_another_network_is_described(resnet):
    expected = f"The file looks like {OF_DINO['vit_small_patch14_dinov2']}, as timm/vit_small"
    assert misfit(state_of("vit_small_patch14_dinov2"), resnet).startswith(expected)


def test_the_same_network_at_another_width_is_said(resnet):
    narrow = {"layer1.0.conv1.weight": (32, 64, 3, 3), "layer1.0.conv2.weight": (32, 32, 3, 3)}
    narrow |= {"conv1.weight": (64, 3, 7, 7)}
    state = {**resnet, **{name: torch.empty(shape) for name, shape in narrow.items()}}
    expected = "The file looks like the same network at another width, 32 instead of 64."
    assert misfit(state, resnet) == expected


def test_another_width_that_timm_has_is_named():
    found = misfit(state_of("vit_base_patch14_dinov2"), state_of("vit_small_patch14_dinov2"))
    assert found.endswith("width, 768 instead of 384, as timm/vit_base_patch14_dinov2.")


def test_a_file_of_an_unknown_network_is_described_by_its_first_names(resnet):
    state = dict.fromkeys(["a.w", "a.b", "c.w", "d.w"], torch.ones(1))
    assert misfit(state, resnet) == "The tensors of the file begin with a.w, a.b, c.w."


def test_a_file_that_lacks_a_tensor_of_its_network_is_not_described(resnet):
    state = {name: value for name, value in resnet.items() if name != "layer4.1.bn2.weight"}
    assert misfit(state, resnet) == ""
    assert misfit({}, resnet) == ""


def test_biases_of_dinov3_name_the_form_that_has_them():
    plain = state_of("vit_small_patch16_dinov3")
    assert "as timm/vit_small_patch16_dinov3_qkvb." in misfit(
        state_of("vit_small_patch16_dinov3_qkvb"), plain
    )


class TestPlace:
    def test_the_hubs_cache_names_the_network(self, resnet, tmp_path):
        file = tmp_path / "models--timm--vit_tiny_patch16_224.augreg_in21k/snapshots/1/w.bin"
        found = misfit({}, resnet, f"timm/resnet18:{file}")
        assert found == "Its folder says timm/vit_tiny_patch16_224.augreg_in21k."

    def test_the_hubs_config_names_the_network(self, resnet, tmp_path):
        (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet10t"}))
        file = tmp_path / "model.safetensors"
        assert misfit({}, resnet, str(file)) == "config.json says timm/resnet10t."
        assert misfit({}, resnet, str(tmp_path / "other.safetensors")) == ""
        (tmp_path / "config.json").write_text("[]")
        assert misfit({}, resnet, str(file)) == ""

    def test_our_description_names_the_network(self, resnet, tmp_path):
        content = {"backbone": {"type": "ResNet", "depth": 50}, "pixels": {}}
        (tmp_path / "w.json").write_text(json.dumps(content))
        found = misfit({}, resnet, str(tmp_path / "w.pth"))
        assert found == "w.json says {'type': 'ResNet', 'depth': 50}."


def test_a_file_without_its_network_is_told_how_to_give_it(tmp_path):
    name = "vit_small_patch14_reg4_dinov2"
    network = TimmBackbone(name, options={"embed_dim": 384, "depth": 1, "img_size": 28})
    torch.save(network.state_dict(), tmp_path / "dino.pth")
    match = rf"show a ViT of DINOv2 .*, as timm/{name}; give timm/{name}:.*dino.pth, or "
    with pytest.raises(ValueError, match=match):
        find_config(str(tmp_path / "dino.pth"), None)


def test_a_file_of_an_unnamed_network_may_be_of_timm(tmp_path):
    torch.save(TimmBackbone("test_efficientnet").state_dict(), tmp_path / "w.pth")
    match = r"show an EfficientNet .*; give timm/NAME:.*w.pth if timm has it, or .* --config"
    with pytest.raises(ValueError, match=match):
        find_config(str(tmp_path / "w.pth"), None)
