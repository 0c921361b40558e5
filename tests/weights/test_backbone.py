import pytest
import torch
from helpers.features.probe_folders import CONFIG, write_config
from mmengine.config import Config
from torchvision.models import resnet18

from mmssprl.weights import find_config, load_backbone


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


class TestLoadBackbone:
    def test_random_weights_follow_the_seed_and_leave_the_generator(self, config):
        cfg = Config.fromfile(config)
        before = torch.random.get_rng_state()
        first, again, other = (
            load_backbone("random", cfg, seed=seed).state_dict() for seed in (0, 0, 1)
        )
        assert torch.equal(torch.random.get_rng_state(), before)
        assert all(torch.equal(first[key], again[key]) for key in first)
        assert not torch.equal(first["conv1.weight"], other["conv1.weight"])

    def test_all_weights_must_fit(self, tmp_path, config):
        cfg = Config.fromfile(config)
        state = load_backbone("random", cfg).state_dict()
        weights = tmp_path / "w.pth"
        del state["bn1.weight"]
        state["layer9.weight"] = torch.ones(1)
        state["conv1.weight"] = torch.ones(4, 3, 7, 7)
        torch.save(state, weights)
        match = r"w.pth.*tiny.py.*\(bn1.weight\).*\(layer9.weight\).*\(8, 3, 7, 7\).*config"
        with pytest.raises(ValueError, match=match):
            load_backbone(str(weights), cfg)


class TestFindConfig:
    def test_takes_the_one_config_beside_the_weights(self, tmp_path, config):
        torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "w.pth")
        assert find_config(str(tmp_path / "w.pth"), None).filename == str(config)
        (tmp_path / "second.py").write_text(CONFIG)
        with pytest.raises(ValueError, match="second.py.*tiny.py"):
            find_config(str(tmp_path / "w.pth"), None)
        for name in ("tiny_backbone.pth", "tiny_best_backbone.pth"):
            (tmp_path / name).write_bytes((tmp_path / "w.pth").read_bytes())
            assert find_config(str(tmp_path / name), None).filename == str(config)

    def test_a_resnet_without_a_config_is_known_by_its_tensors(self, tmp_path):
        path = tmp_path / "w.pth"
        torch.save(resnet18().state_dict(), path)  # with its classifier
        cfg = find_config(str(path), None)
        assert cfg.model.backbone.depth == 18
        assert load_backbone(str(path), cfg).depth == 18
        torch.save({"conv.weight": torch.zeros(1)}, path)
        with pytest.raises(ValueError, match="one config.*none"):
            find_config(str(path), None)

    @pytest.mark.parametrize("beside", [None, "", "raise SystemExit", "model = dict(backbone={})"])
    def test_a_damaged_file_is_told_before_the_config_beside_it_is_read(self, tmp_path, beside):
        (tmp_path / "w.pth").write_text("a page of errors")
        if beside is not None:
            (tmp_path / "a.py").write_text(beside)
        with pytest.raises(ValueError, match="w.pth cannot be read"):
            find_config(str(tmp_path / "w.pth"), None)

    def test_says_what_is_missing(self, tmp_path, config):
        with pytest.raises(ValueError, match="config"):
            find_config("random", None)
        with pytest.raises(FileNotFoundError, match="gone.pth"):
            find_config("gone.pth", str(config))
        with pytest.raises(FileNotFoundError, match="gone.py"):
            find_config("random", "gone.py")
        (tmp_path / "other.py").write_text("x = 1")
        with pytest.raises(ValueError, match="model.backbone"):
            find_config("random", str(tmp_path / "other.py"))
