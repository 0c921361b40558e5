import copy
from types import SimpleNamespace

import pytest
import torch
from helpers.config.linear_config import CONFIG, write_linear
from helpers.experiments.tiny_benchmark import save_backbone
from helpers.saving.stopped_runs import assert_equal
from mmengine.config import Config
from torchvision.models import resnet18

from mmssprl.engine import initial_weights
from mmssprl.engine.initial_weights import InitialWeightsHook, apply_weights
from mmssprl.engine.launch import launch, prepare_test_config, prepare_train_config
from mmssprl.weights import load_network, read_backbone, write_description


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_linear(tmp_path)


@pytest.fixture
def weights(config):
    """A training checkpoint of a backbone as in the config."""
    state = load_network("random", Config.fromfile(config), seed=7).state_dict()
    path = config.parent / "ssprl.pth"
    torch.save({"state_dict": {f"backbone.{k}": v for k, v in state.items()}}, path)
    return path


class TestTraining:
    def test_weights_of_another_backbone_stay_in_all_that_follows(
        self, config, tmp_path, monkeypatch, capsys
    ):
        lines = []
        monkeypatch.setattr(initial_weights, "print_log", lambda text, logger: lines.append(text))
        wide = {"type": "ResNet", "depth": 18, "num_stages": 2, "base_channels": 12}
        wide |= {"strides": (1, 2), "dilations": (1, 1), "out_indices": (1,)}
        weights = save_backbone(tmp_path / "pretrained/w.pth", wide)

        cfg = prepare_train_config(config, weights=str(weights), work_dir="a")
        assert cfg.model.backbone == wide
        assert cfg.model.head.in_channels == 24
        launch(cfg, "train")
        assert_equal(read_backbone("a/epoch_1.pth"), read_backbone(weights), "backbone")
        assert Config.fromfile("a/linear.py").model.backbone.base_channels == 12

        longer = {"train_cfg.max_epochs": 2}
        cfg = prepare_train_config(config, work_dir="a", resume="auto", cfg_options=longer)
        launch(cfg, "train")
        assert (config.parent / "a/epoch_2.pth").exists()
        prepare_train_config(config, work_dir="a", resume="auto", weights="random")
        assert "--weights random is not read: the run goes on from" in capsys.readouterr().err
        launch(prepare_test_config(config, "a", work_dir="b"), "test")

        found = [line for line in lines if line.startswith("model.backbone is")]
        for line, origin in zip(found, ("pretrained/w.json", "a/linear.py"), strict=False):
            assert str(tmp_path / origin) in line

    def test_a_training_that_has_begun_keeps_its_weights_in_any_runner(self, config, weights):
        cfg = Config.fromfile(config)
        model = SimpleNamespace(backbone=load_network("random", cfg, seed=1))
        before = copy.deepcopy(model.backbone.state_dict())
        hook = InitialWeightsHook(str(weights))
        hook.before_train(SimpleNamespace(model=model, iter=1, cfg=cfg))
        assert_equal(model.backbone.state_dict(), before, "backbone")
        hook.before_train(SimpleNamespace(model=model, iter=0, cfg=cfg))
        assert_equal(model.backbone.state_dict(), read_backbone(weights), "backbone")

    def test_supervised_weights_come_from_torchvision_without_its_classifier(
        self, config, monkeypatch
    ):
        state = {k: v for k, v in resnet18().state_dict().items() if not k.startswith("fc.")}
        monkeypatch.setattr("mmssprl.weights.backbone.supervised_state", lambda depth: state)
        backbone = {"_delete_": True, "type": "mmpretrain.ResNet", "depth": 18, "num_stages": 4}
        options = {"model.backbone": backbone, "model.head.in_channels": 512}
        cfg = prepare_train_config(config, weights="supervised", cfg_options=options)
        assert cfg.custom_hooks[-1].depth == 18
        launch(cfg, "train")
        assert_equal(read_backbone("run/epoch_1.pth"), state, "backbone")


class TestRefused:
    def test_a_checkpoint_of_another_backbone(self, config, weights):
        options = {"model.backbone.depth": 34}
        with pytest.raises(ValueError, match=r"ssprl.pth .*linear.py.*layer1.2.conv1.weight"):
            prepare_train_config(config, weights=str(weights), cfg_options=options)
        assert not (config.parent / "run").exists()

    def test_a_description_of_another_backbone(self, config, weights):
        other = Config.fromstring(CONFIG.replace("base_channels=8", "base_channels=4"), ".py")
        write_description(weights, other)
        options = {"model.backbone.depth": 34}
        with pytest.raises(ValueError, match=r"ssprl\.json, .* next to the file"):
            prepare_train_config(config, weights=str(weights), cfg_options=options)

    def test_two_origins(self, config, weights):
        options = {"model.backbone.init_cfg": {"type": "Pretrained", "checkpoint": "x.pth"}}
        with pytest.raises(ValueError, match="weights=.*init_cfg"):
            prepare_train_config(config, weights=str(weights), cfg_options=options)

    def test_a_config_without_the_field(self, config, weights):
        config.write_text(config.read_text().replace('weights = "random"\n', ""))
        with pytest.raises(ValueError, match="--weights .*load_from"):
            prepare_train_config(config, weights=str(weights))
        prepare_train_config(config)

    def test_mmengine_reads_a_file_of_init_cfg(self, config, weights, tmp_path):
        state = read_backbone(weights)
        init = {"type": "Pretrained", "checkpoint": str(tmp_path / "x.pth")}
        options = {"model.backbone.init_cfg": init}

        def below_prefix(prefix):
            return {f"{prefix}{name}": value for name, value in state.items()}

        for content in (state, {"state_dict": below_prefix("module.")}):
            torch.save(content, tmp_path / "x.pth")
            prepare_train_config(config, cfg_options=options)
        for content, below in (
            ({"state_dict": below_prefix("net.")}, "net."),
            ({"state_dict": state, "ema": state}, "ema."),
        ):
            torch.save(content, tmp_path / "x.pth")
            match = (
                rf"init_cfg reads .*x\.pth has it below .*{below}'; `convert` it, or .* `weights`"
            )
            with pytest.raises(ValueError, match=match):
                prepare_train_config(config, cfg_options=options)
            with_prefix = {"model.backbone.init_cfg": {**init, "prefix": below}}
            assert prepare_train_config(config, cfg_options=with_prefix)


def test_a_dumped_config_has_the_hook_once(config, weights):
    cfg = prepare_train_config(config, weights=str(weights))
    apply_weights(cfg, str(weights))
    assert [hook.type for hook in cfg.custom_hooks] == ["mmssprl.InitialWeightsHook"]


def test_random_removes_only_the_hook_of_the_weights(config, weights):
    cfg = prepare_train_config(config, weights=str(weights))
    cfg.custom_hooks.append({"type": "EMAHook"})
    apply_weights(cfg, "random")
    assert [hook["type"] for hook in cfg.custom_hooks] == ["EMAHook"]
