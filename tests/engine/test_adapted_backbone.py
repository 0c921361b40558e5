import re

import pytest
import torch
from helpers.experiments.tiny_benchmark import NARROW, RESNET50, protocol
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, DefaultScope

from mmssprl.config.shipped import shipped
from mmssprl.engine.adapted_backbone import (
    adapt_backbone,
    fit_backbone,
    take_backbone,
    take_style,
)
from mmssprl.pretraining.known_backbones import BACKBONES
from mmssprl.weights import find_config, load_network


def adapted(size, name, backbone):
    cfg = Config.fromfile(shipped(protocol(name, size).config))
    adapt_backbone(cfg, backbone)
    return cfg


def build(cfg):
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        return revert_sync_batchnorm(MODELS.build(cfg.model))


class TestClassification:
    @pytest.mark.parametrize(
        ("name", "num_features"),
        [("resnet18", 512), ("vit-small", 384), ("swin-tiny", 768)],
    )
    def test_takes_any_backbone(self, name, num_features):
        init_cfg = {"type": "Pretrained", "checkpoint": "not_there.pth"}
        cfg = adapted("scenes", "linear-coco", {**BACKBONES[name].cfg, "init_cfg": init_cfg})
        assert cfg.model.backbone == BACKBONES[name].cfg
        assert cfg.model.head.in_channels == num_features
        model = build(cfg)
        assert cfg.image_px == 84  # not a multiple of a transformer's patch
        with torch.no_grad():
            scores = model(torch.rand(2, 3, cfg.image_px, cfg.image_px))
        assert scores.shape == (2, 24)
        # A frozen backbone stays frozen.
        assert not any(parameter.requires_grad for parameter in model.backbone.parameters())

    def test_tokens_are_refused(self):
        backbone = {**BACKBONES["vit-small"].cfg, "out_type": "raw"}
        with pytest.raises(ValueError, match=r"197, 384.*out_type="):
            adapted("scenes", "linear-coco", backbone)


@pytest.mark.full
class TestDetection:
    # The paper's config has one more level than the backbone has stages, the small ones have none.
    @pytest.mark.parametrize(
        ("size", "backbone", "channels", "strides"),
        [
            ("paper", RESNET50, [256, 512, 1024, 2048], [4, 8, 16, 32, 64]),
            ("scenes", NARROW, [8, 16, 32], [4, 8, 16]),
        ],
    )
    def test_all_that_reads_the_pyramid_fits_its_stages(self, size, backbone, channels, strides):
        model = build(adapted(size, "detection", backbone))
        assert model.neck.in_channels == channels
        side = 64
        with torch.no_grad():
            stages = model.backbone(torch.rand(2, 3, side, side))
            levels = model.neck(stages)
        assert [stage.shape[1] for stage in stages] == channels
        # Anchors and regions assume that a level of stride s has one place per s pixels.
        assert [side // level.shape[-1] for level in levels] == strides
        assert model.rpn_head.prior_generator.strides == [(s, s) for s in strides]
        for part in ("bbox", "mask"):
            extractor = model.roi_head.get_submodule(f"{part}_roi_extractor")
            assert extractor.featmap_strides == strides[: len(channels)]

    def test_only_the_fields_of_the_weights_change(self):
        cfg = adapted("paper", "detection", {**NARROW, "norm_cfg": {"type": "GN"}})
        own = cfg.model.backbone
        assert (own.frozen_stages, own.norm_eval, own.norm_cfg.type) == (-1, False, "SyncBN")
        fields = ("depth", "stem_channels", "base_channels", "num_stages", "strides", "dilations")
        assert {key: own[key] for key in fields} == {key: NARROW[key] for key in fields}
        other = adapted("scenes", "detection", RESNET50).model.backbone
        assert other.depth == 50
        assert not {"style", *fields[1:]} & set(other)


def test_a_test_normalises_as_the_training_of_its_checkpoint(tmp_path):
    of_run = adapted("scenes", "linear-coco", NARROW)
    of_run.weights = "own.pth"
    of_run.model.data_preprocessor.update(mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0])
    of_run.dump(tmp_path / "run.py")
    checkpoint = tmp_path / "epoch_1.pth"
    torch.save({"state_dict": build(of_run).state_dict()}, checkpoint)
    cfg = Config.fromfile(shipped(protocol("linear-coco", "scenes").config))
    assert cfg.model.data_preprocessor.mean[0] == 123.675
    take_backbone(cfg, str(checkpoint))
    assert cfg.model.data_preprocessor.mean == [1, 2, 3]


@pytest.mark.parametrize(
    ("depth", "style", "expected"),
    [(50, "caffe", "caffe"), (50, "pytorch", None), (18, "caffe", None)],
)
def test_a_resnet_with_bottlenecks_gets_the_style_of_its_weights(
    depth, style, expected, tmp_path, capfd
):
    backbone = {"type": "ResNet", "depth": depth, "base_channels": 8, "stem_channels": 8}
    cfg = Config({"model": {"backbone": backbone, "head": {}}})
    own = Config({"model": {"backbone": {**backbone, "style": style}}})
    network = load_network("random", cfg)
    content = {"meta": {"cfg": own.pretty_text}, "state_dict": network.state_dict()}
    file = str(tmp_path / "w.pth")
    torch.save(content, file)
    fit_backbone(cfg, file, adapt=False)
    assert cfg.model.backbone.get("style") == expected
    assert find_config(file, None).model.backbone.get("style") == expected
    given = Config({"model": {"backbone": backbone}})
    load_network(file, given)
    told = "w.pth is of a ResNet of style 'caffe', but its config has .* set style='caffe'"
    assert bool(re.search(told, capfd.readouterr().out)) == bool(expected)
    if expected:
        timm = Config({"model": {"backbone": {"type": "TimmBackbone", "model_name": "resnet50"}}})
        with pytest.raises(ValueError, match="'caffe', but resnet50 has .*; give the file without"):
            take_style(timm, f"timm/resnet50:{file}", network)
