"""Where the mean and deviation of a network's images come from."""

import json
from typing import ClassVar

import pytest
import torch
from helpers.models import odd_nets, own_nets
from mmengine.config import Config
from mmpretrain.models import ResNet

from mmssprl.features.backbone import load_backbone
from mmssprl.models import ModuleBackbone, TimmBackbone
from mmssprl.pixels import IMAGENET_MEAN, IMAGENET_STD, Normalisation, Pixels
from mmssprl.weights import (
    find_normalisation,
    normalisation,
    take_normalisation,
    write_description,
)
from mmssprl.weights.description import find_description
from mmssprl.weights.normalisation import of_module

RESNET = {"type": "ResNet", "depth": 18, "base_channels": 8, "stem_channels": 8}
VIT = {"type": "TimmBackbone", "model_name": "test_vit"}
WITH_NUMBERS = "helpers.models.own_nets:with_numbers"
UINT16 = Pixels(3, "uint16")


def described(path, **preprocessor):
    path.touch()
    write_description(path, Config({"model": {"backbone": VIT, "data_preprocessor": preprocessor}}))
    return str(path)


@pytest.mark.parametrize("weights", ["{file}", "timm/test_vit:{file}"])
def test_a_description_comes_before_the_record_of_timm(weights, tmp_path):
    file = described(tmp_path / "w.pth", mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0])
    found = find_normalisation(weights.format(file=file), VIT)
    assert found[:3] == ((1, 2, 3), (4, 5, 6), "w.json")


def test_without_a_description_the_record_of_timm_counts(tmp_path):
    (tmp_path / "w.pth").touch()
    found = find_normalisation(str(tmp_path / "w.pth"), VIT)
    assert found[:3] == ((127.5,) * 3, (127.5,) * 3, "timm's test_vit")


@pytest.mark.parametrize(
    ("kind", "network", "source"),
    [
        (TimmBackbone, {"model_name": "test_vit"}, "timm's test_vit"),
        (ModuleBackbone, {"network": WITH_NUMBERS}, WITH_NUMBERS),
    ],
)
def test_a_type_that_is_a_class_is_recognised(kind, network, source, tmp_path):
    (tmp_path / "w.pth").touch()
    found = find_normalisation(str(tmp_path / "w.pth"), {"type": kind, **network})
    assert found.source == source


def test_weights_of_torchvision_have_the_numbers_of_imagenet_beside_any_config(monkeypatch):
    assert find_normalisation("supervised", VIT) == Normalisation()
    resnet = {"type": "ResNet", "depth": 18}
    state = load_backbone("random", Config({"model": {"backbone": resnet}})).backbone.state_dict()
    monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", lambda depth: dict(state))
    own = {"mean": [1.0, 2.0, 3.0], "std": [4.0, 5.0, 6.0]}
    cfg = Config({"model": {"backbone": resnet, "data_preprocessor": own}})
    assert load_backbone("random", cfg).mean == (1, 2, 3)
    found = load_backbone("supervised", cfg)
    assert (found.mean, found.std) == (IMAGENET_MEAN, IMAGENET_STD)
    cfg.model.data_preprocessor.pixels = {"channels": 3, "dtype": "uint16"}
    cfg.model.backbone.type = ResNet  # as in configs of the new style
    assert load_backbone("supervised", cfg).mean == pytest.approx([257 * x for x in IMAGENET_MEAN])


@pytest.mark.parametrize(
    ("name", "mean", "source"),
    [
        ("with_record", (51.0, 102.0, 153.0), "nets:with_record.pretrained_cfg"),
        ("with_numbers", (90.0, 80.0, 70.0), "nets:with_numbers"),
        ("with_other_attributes", IMAGENET_MEAN, "ImageNet"),
        ("maps", IMAGENET_MEAN, "ImageNet"),
    ],
)
def test_attributes_of_a_module(name, mean, source):
    found = of_module(getattr(own_nets, name)(), f"nets:{name}")
    assert found.mean == pytest.approx(mean)
    assert found.source == source


@pytest.mark.parametrize(
    ("mean", "std", "expected"),
    [
        (0.5, 0.25, (127.5, 63.75)),
        (torch.tensor([120.0]), 1, (120.0, 1.0)),  # of 0 to 255
    ],
)
def test_one_number_is_for_all_channels(mean, std, expected):
    net = own_nets.maps()
    net.mean = mean
    net.std = std
    found = of_module(net, "net")
    assert (found.mean, found.std) == ((expected[0],) * 3, (expected[1],) * 3)


def test_a_deviation_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"mean and std of nets:x .* above 0, .*\[0.5, 0.0, 0.5\]"):
        of_module(own_nets.with_a_deviation_of_zero(), "nets:x")


def test_a_description_of_other_weights_in_the_folder_is_not_taken(tmp_path):
    described(tmp_path / "run_backbone.pth", mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0])
    assert find_description(tmp_path / "epoch_3.pth") == tmp_path / "run_backbone.json"
    assert find_description(tmp_path / "resnet50.pth") is None


@pytest.fixture
def said(monkeypatch):
    """The lines of the log."""
    lines = []
    monkeypatch.setattr(normalisation, "print_log", lambda text, logger: lines.append(text))
    return lines


def transfer_config(**preprocessor):
    return Config({"model": {"type": "X", "backbone": RESNET, "data_preprocessor": preprocessor}})


def test_a_transfer_takes_the_numbers_of_its_weights(said):
    cfg = transfer_config(mean=[*IMAGENET_MEAN], std=[*IMAGENET_STD], to_rgb=True)
    take_normalisation(cfg, Normalisation((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), "w.json"))
    own = {"mean": [1, 2, 3], "std": [4, 5, 6], "to_rgb": True}
    assert cfg.model.data_preprocessor.to_dict() == own
    assert "normalised by mean 1, 2, 3, deviation 4, 5, 6 of w.json" in said[0]


def test_numbers_that_the_user_chose_stay_with_a_warning(said):
    cfg = transfer_config(mean=[9.0] * 3, std=[8.0] * 3)
    take_normalisation(cfg, Normalisation((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), "w.json"))
    assert cfg.model.data_preprocessor.mean == [9, 9, 9]
    wanted = "warning: the config normalises by mean 9, 9, 9, deviation 8, 8, 8, but the weights"
    assert wanted in said[0]


def test_unknown_numbers_of_four_channels_leave_those_of_the_config(said):
    pixels = {"channels": 4, "dtype": "uint8"}
    cfg = transfer_config(mean=[9.0] * 4, std=[8.0] * 4, pixels=pixels)
    take_normalisation(cfg, Normalisation())  # of a file without a description
    assert cfg.model.data_preprocessor.mean == [9] * 4
    assert said == []


def test_small_numbers_of_floating_point_channels_are_told_apart():
    held = Pixels(2, "float32")
    own = Normalisation((3e-4, 4e-4), (2e-4, 3e-4), pixels=held)
    assert not own.equals(Normalisation((1e-3, 1e-4), (1e-3, 9e-4), pixels=held))
    assert own.equals(own._replace(mean=(3e-4 + 1e-10, 4e-4)))


def test_numbers_of_16_bit_colours_are_scaled():
    own = Normalisation((25700.0,) * 3, (12850.0,) * 3, "w.json", UINT16)
    cfg = transfer_config(mean=[*IMAGENET_MEAN], std=[*IMAGENET_STD])
    take_normalisation(cfg, own)
    assert cfg.model.data_preprocessor.mean == pytest.approx([100] * 3)
    assert cfg.model.data_preprocessor.std == pytest.approx([50] * 3)


def test_numbers_of_other_channels_are_refused():
    cfg = transfer_config(mean=[*IMAGENET_MEAN], std=[*IMAGENET_STD])
    other = Normalisation((1.0,) * 4, (1.0,) * 4, "w.json", Pixels(4, "uint16"))
    with pytest.raises(ValueError, match="of 3 channels of uint8, .* w.json are of 4 channels of"):
        take_normalisation(cfg, other)


@pytest.mark.parametrize(
    ("name", "mean", "source"),
    [
        ("around_timm", (127.5,) * 3, "nets.0.pretrained_cfg"),
        ("of_open_clip", (25.5, 51.0, 76.5), "nets.preprocess_cfg"),
        ("with_own_numbers", (0.0,) * 3, "nets"),  # before timm's record
    ],
)
def test_attributes_of_networks_of_other_packages(name, mean, source):
    found = of_module(getattr(odd_nets, name)(), "nets")
    assert found.mean == pytest.approx(mean)
    assert found.source == source


def test_parts_with_different_records_are_refused():
    match = r"nets\.0\.pretrained_cfg and of nets\.1\.default_cfg differ, mean 127.5.* mean 25.5"
    with pytest.raises(ValueError, match=match):
        of_module(odd_nets.around_two(), "nets")


class TestHub:
    """A file with another tag than timm's default, as in a folder of the hub or its cache."""

    BACKBONE: ClassVar = {"type": "TimmBackbone", "model_name": "vit_small_patch16_224"}

    def write(self, folder, **config):
        folder.mkdir(parents=True)
        if config:
            (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").touch()
        return str(folder / "model.safetensors")

    def test_config_json_has_the_numbers_of_its_file(self, tmp_path):
        record = {"tag": "mine", "mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5]}
        name = "vit_small_patch16_224"
        file = self.write(tmp_path / "a", architecture=name, pretrained_cfg=record)
        found = find_normalisation(f"timm/{name}:{file}", self.BACKBONE)
        assert found.mean == pytest.approx((25.5, 51.0, 76.5))
        assert found.source == f"timm's {name}.mine"

    def test_the_folder_of_the_cache_names_the_weights(self, tmp_path):
        file = self.write(tmp_path / "models--timm--vit_small_patch16_224.dino/snapshots/1")
        found = find_normalisation(file, self.BACKBONE)
        assert found.equals(Normalisation())  # those of .dino; timm's default has 127.5
        assert found.source == "timm's vit_small_patch16_224.dino"

    def test_a_link_to_a_file_of_the_cache_is_followed(self, tmp_path):
        file = self.write(tmp_path / "models--timm--vit_small_patch16_224.dino/snapshots/1")
        (tmp_path / "dino.safetensors").symlink_to(file)
        found = find_normalisation(str(tmp_path / "dino.safetensors"), self.BACKBONE)
        assert found.source == "timm's vit_small_patch16_224.dino"

    @pytest.mark.parametrize("content", [{"architecture": "x"}, {"pretrained_cfg": 3}, {"mean": 1}])
    def test_without_numbers_those_of_the_named_network_count(self, content, tmp_path):
        file = self.write(tmp_path / "a", **content)
        assert find_normalisation(file, self.BACKBONE).mean == (127.5,) * 3

    def test_another_network_of_equal_tensors_is_a_warning(self, tmp_path, said, monkeypatch):
        monkeypatch.setattr(normalisation, "say_once", said.append)
        file = self.write(tmp_path / "a", architecture="deit_small_patch16_224")
        find_normalisation(file, self.BACKBONE)
        assert said == [
            f"warning: config.json says that {file} is of timm/deit_small_patch16_224, but it is "
            "read as timm/vit_small_patch16_224. Networks with equal tensors can differ in padding "
            f"and activation. Give timm/deit_small_patch16_224:{file} to follow it."
        ]

    def test_the_config_of_open_clip_has_the_numbers_of_its_tower(self, tmp_path):
        record = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5]}
        network = {"vision_cfg": {"timm_model_name": "vit_small_patch16_224"}}
        config = {"model_cfg": network, "preprocess_cfg": record}
        (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
        file = tmp_path / "open_clip_pytorch_model.bin"
        file.touch()
        found = find_normalisation(f"timm/vit_small_patch16_224:{file}", self.BACKBONE)
        assert found.mean == pytest.approx((25.5, 51.0, 76.5))

    def test_a_file_for_a_network_of_a_function_has_its_numbers(self, tmp_path):
        record = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5]}
        file = self.write(tmp_path / "a", architecture="resnet18", pretrained_cfg=record)
        network = {"type": "ModuleBackbone", "network": "helpers.models.own_nets:one_map"}
        assert find_normalisation(file, network).mean == pytest.approx((25.5, 51.0, 76.5))

    @pytest.mark.parametrize(
        ("name", "num_said"), [("resnetblur18", 1), ("resnet18", 0), ("tv_resnet18", 0)]
    )
    def test_a_resnet_read_by_its_tensors_has_these_numbers_too(
        self, name, num_said, tmp_path, said, monkeypatch
    ):
        monkeypatch.setattr(normalisation, "say_once", said.append)
        record = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5]}
        file = self.write(tmp_path / "a", architecture=name, pretrained_cfg=record)
        found = find_normalisation(file, {"type": "ResNet", "depth": 18})
        assert found.mean == pytest.approx((25.5, 51.0, 76.5))
        assert len(said) == num_said
        assert not said or "is of timm/resnetblur18, but it is read as a ResNet-18." in said[0]


@pytest.mark.parametrize(("model", "num_said"), [("vit_tiny_patch16_224", 1), ("test_vit", 0)])
def test_a_description_of_another_network_of_timm_is_a_warning(
    model, num_said, tmp_path, said, monkeypatch
):
    monkeypatch.setattr(normalisation, "say_once", said.append)
    file = described(tmp_path / "w.pth")
    find_normalisation(f"timm/{model}:{file}", {"type": "TimmBackbone", "model_name": model})
    assert len(said) == num_said
    assert not said or said[0].startswith("warning: w.json says that ")


@pytest.mark.parametrize(
    ("name", "num_said"),
    [("vit_small_patch16_224", 1), ("vit_small_patch16_224.dino", 0), ("resnet18", 0)],
)
def test_a_file_without_numbers_names_others_of_its_network(
    name, num_said, tmp_path, said, monkeypatch
):
    monkeypatch.setattr(normalisation, "say_once", said.append)
    (tmp_path / "w.pth").touch()
    find_normalisation(
        f"timm/{name}:{tmp_path / 'w.pth'}", {"type": "TimmBackbone", "model_name": name}
    )
    assert len(said) == num_said
    assert not said or f"such as timm/{name}.dino:{tmp_path / 'w.pth'}, takes mean 123.7" in said[0]
