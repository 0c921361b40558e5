import json
import os

import pytest
import torch
from helpers.features.probe_folders import write_config
from helpers.models import odd_nets
from mmengine.config import Config

from mmssprl.features.backbone import FeatureBackbone
from mmssprl.registry import MODELS
from mmssprl.weights import (
    check_fit,
    description,
    find_config,
    load_network,
    normalisation,
    weights_file,
    write_description,
)
from mmssprl.weights.description import find_description, modules_of, read_description


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


@pytest.fixture
def weights(tmp_path):
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "w.pth")
    return tmp_path / "w.pth"


def test_random_weights_follow_the_seed(config):
    cfg = Config.fromfile(config)
    first, again, other = (
        load_network("random", cfg, seed=seed).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


def test_random_weights_leave_the_generator_as_it_was(config):
    before = torch.random.get_rng_state()
    load_network("random", Config.fromfile(config), seed=0)
    assert torch.equal(torch.random.get_rng_state(), before)


@MODELS.register_module()
class NetworkOfUser(torch.nn.Module):
    """A class that a module of the user registers."""


@pytest.mark.parametrize(
    ("backbone", "needed"),
    [
        ({"type": "ResNet", "depth": 18}, []),
        ({"type": "ModuleBackbone", "network": "nets.small:trunk"}, ["nets.small"]),
        ({"type": "NetworkOfUser"}, [__name__]),
    ],
)
def test_commands_need_the_modules_of_the_backbone(backbone, needed, monkeypatch):
    monkeypatch.setattr(description, "named_modules", ["teachers", "nets.small", __name__])
    assert modules_of(backbone) == needed


class TestFindConfig:
    def test_a_description_says_how_to_use_the_weights(self, weights, config):
        written = json.loads(write_description(weights, Config.fromfile(config)).read_text())
        assert set(written) == {"backbone", "pixels", "image_px", "method", "versions"}
        assert written["pixels"] == {
            **{"channels": 3, "dtype": "uint8"},
            **{"mean": [100.0, 110.0, 120.0], "std": [50.0, 55.0, 60.0]},
        }
        assert (written["image_px"], written["method"]) == (32, "SSPRL")

    def test_reads_the_description_next_to_the_weights(self, weights, config):
        expected = Config.fromfile(config)
        written = write_description(weights, expected).read_text()
        cfg = find_config(str(weights), None)
        assert {**expected.model.backbone, **cfg.model.backbone} == expected.model.backbone
        assert "init_cfg" not in cfg.model.backbone
        model = FeatureBackbone.of_config(torch.nn.Identity(), cfg)
        assert (model.image_px, model.pixels, model.mean) == (32, None, (100.0, 110.0, 120.0))
        again = write_description(weights.with_name("again.pth"), cfg)
        assert again.read_text() == written

    @pytest.mark.parametrize(("mean", "num_said"), [(100.0, 0), (101.0, 1)])
    def test_a_given_config_is_compared_with_the_description(
        self, mean, num_said, weights, config, monkeypatch
    ):
        said = []
        monkeypatch.setattr(normalisation, "say_once", said.append)
        other = Config.fromfile(config)
        other.model.data_preprocessor.mean = [mean, 110.0, 120.0]
        write_description(weights, other)
        cfg = find_config(str(weights), str(config))
        assert cfg.model.data_preprocessor.mean[0] == 100
        assert len(said) == num_said
        assert not said or f"but {weights.stem}.json says mean 101, 110, 120," in said[0]

    def test_a_checkpoint_is_described_by_the_backbone_of_its_run(self, weights, config):
        write_description(weights.with_name("tiny_backbone.pth"), Config.fromfile(config))
        checkpoint = weights.rename(weights.with_name("epoch_3.pth"))
        cfg = find_config(str(checkpoint), None)
        assert cfg.filename == str(weights.with_name("tiny_backbone.json"))

    @pytest.mark.parametrize("name", ["w.pth", "epoch_3.pth", "best_mIoU_epoch_3.pth"])
    def test_a_link_is_described_next_to_its_file(self, name, weights, config, tmp_path):
        file = weights.rename(weights.with_name(name))
        written = write_description(tmp_path / "w_backbone.pth", Config.fromfile(config))
        if name == "w.pth":
            written = written.rename(tmp_path / "w.json")
        (tmp_path / "links").mkdir()
        (tmp_path / "links/latest.pth").symlink_to(file)
        assert find_description(tmp_path / "links/latest.pth") == written

    @pytest.mark.parametrize(
        ("content", "is_taken"),
        [
            ('{"lr": 0.1}', False),
            ('{"backbone": "resnet50"}', False),
            ('{"backbone": 3, "pixels": 4}', True),
            ('{"backbo', True),
            ("[]", False),
            ('{"epoch": 1}\n{"epoch": 2}', False),
            ('{"backbone": 3, "pixels": 4}\n}', True),
        ],
    )
    def test_json_of_another_tool_is_no_description(self, content, is_taken, tmp_path):
        (tmp_path / "w.json").write_text(content)
        assert (find_description(tmp_path / "w.pth") is not None) == is_taken

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"backbone": {"type": "os.system", "command": "x"}}, "no type 'os.system'"),
            ({"backbone": {"type": "nets.mmpretrain.ResNet"}}, "no type 'nets.mmpretrain.ResNet'"),
            ({"backbone": {"type": "ResNet", "norm_cfg": {"type": "subprocess.run"}}}, "no type"),
            ({"image_px": -1}, "image_px"),
        ],
    )
    def test_a_description_is_data(self, weights, config, change, match):
        path = write_description(weights, Config.fromfile(config))
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        with pytest.raises(ValueError, match=rf"w\.json is not .*{match}.*--config"):
            find_config(str(weights), None)

    @pytest.mark.parametrize(
        ("imported", "kind"),
        [("mmpretrain.models", "ResNet"), ("mmssprl.models", "TimmBackbone")],
    )
    def test_a_class_is_described_by_its_registered_name(self, imported, kind, weights, tmp_path):
        fields = "depth=18, norm_cfg=dict(type=BatchNorm2d), model_name='test_vit'"
        lines = ["from mmengine.config import read_base", "with read_base():"]
        lines += ["    from .x import *", f"from {imported} import {kind}"]
        lines.append("from torch.nn import BatchNorm2d")
        lines.append(f"model = dict(type={kind}, backbone=dict(type={kind}, {fields}))")
        (tmp_path / "x.py").touch()
        (tmp_path / "new_style.py").write_text("\n".join(lines))
        path = write_description(weights, Config.fromfile(tmp_path / "new_style.py"))
        assert json.loads(path.read_text())["method"] == kind
        backbone = read_description(path).model.backbone
        assert (backbone.type, backbone.norm_cfg.type) == (kind, "BN")
        # As earlier versions wrote it.
        path.write_text(path.read_text().replace(f'"{kind}"', f'"{imported}.{kind}"'))
        assert read_description(path).model.backbone.type == kind

    def test_the_folder_of_a_run_needs_a_backbone(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="epoch_N"):
            find_config(str(tmp_path), None)

    def test_the_folder_of_a_run_means_its_newest_backbone(self, config, tmp_path):
        expected = Config.fromfile(config)
        for seed, name in enumerate(("a_best_backbone.pth", "a_backbone.pth")):
            newest = load_network("random", expected, seed=seed).state_dict()
            torch.save(newest, tmp_path / name)
            write_description(tmp_path / name, expected)
            os.utime(tmp_path / name, (seed, seed))
        cfg = find_config(str(tmp_path), None)
        assert cfg.filename.endswith("a_backbone.json")
        found = load_network(str(tmp_path), cfg).conv1.weight
        assert torch.equal(found, newest["conv1.weight"])

    def test_the_last_backbone_of_a_copied_run_is_taken(self, tmp_path):
        for seconds, name in enumerate(("a_backbone.pth", "a_best_backbone.pth")):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (seconds, seconds))
        assert weights_file(tmp_path).name == "a_backbone.pth"
        (tmp_path / "a_backbone.pth").unlink()
        assert weights_file(tmp_path).name == "a_best_backbone.pth"

    @pytest.mark.parametrize("network", ["timm/resnet18", "timm/resnet18:w.pth", "my_net:trunk"])
    def test_a_network_is_no_file(self, network):
        with pytest.raises(ValueError, match=f"but {network} names a network; give the file"):
            weights_file(network)

    def test_a_config_with_a_backbone_is_needed(self, weights, tmp_path):
        (tmp_path / "other.py").write_text("x = 1")
        for name, config, match in (
            ("random", None, "random weights need a config"),
            ("random", str(tmp_path / "other.py"), r"other.py has no model.backbone"),
            (str(weights), None, "ResNet .*the config of their training by --config"),
        ):
            with pytest.raises(ValueError, match=match):
                find_config(name, config)


def test_a_shared_parameter_needs_one_of_its_names():
    expected = odd_nets.shared().state_dict()
    given = {key: value for key, value in expected.items() if key != "3.weight"}
    check_fit(given, expected, weights="w.pth", owner="net", remedy="none")
    given.pop("2.weight")
    with pytest.raises(ValueError, match=r"2 missing \(2.weight, 3.weight\)"):
        check_fit(given, expected, weights="w.pth", owner="net", remedy="none")


def test_tensors_without_a_place_are_not_taken_as_shared():
    with torch.device("meta"):
        expected = odd_nets.plain().state_dict()
    given = {key: value for key, value in expected.items() if key != "0.0.weight"}
    with pytest.raises(ValueError, match=r"1 missing \(0.0.weight\)"):
        check_fit(given, expected, weights="w.pth", owner="net", remedy="none")
