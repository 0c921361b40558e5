"""Files of timm's networks with parts that are left out."""

import pytest
import timm
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.weights import start_state

CLASSIFIERS = {
    "deit_tiny_distilled_patch16_224": "head_dist.weight",
    "repvit_m0_9": "head.head.l.weight",
    "caformer_s18": "head.fc.fc2.weight",
    "inception_resnet_v2": "classif.weight",
    "pnasnet5large": "last_linear.weight",
    "volo_d1_224": "aux_head.weight",
    "efficientvim_m1": "heads.0.weight",
}
"""A tensor of the classifier of timm's networks."""
DECODERS = ("mask_token", "decoder_pos_embed", "decoder_blocks.0.norm1.weight", "decoder.0.weight")
"""Tensors of MAE and SimMIM next to the encoder."""


@pytest.mark.parametrize(("network", "name"), CLASSIFIERS.items())
def test_classifiers_of_timm_are_left_out(network, name, tmp_path):
    listed = timm.get_pretrained_cfg(network).classifier
    assert name.removesuffix(".weight") in ((listed,) if isinstance(listed, str) else listed)
    wanted = timm.create_model("test_vit", num_classes=0).state_dict()
    file = published.save({**wanted, name: torch.ones(5, 2)}, tmp_path / "w.pth")
    state = start_state(str(file), wanted=wanted)
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[key], value) for key, value in wanted.items())


@pytest.mark.parametrize("prefix", ["", "encoder."])
def test_decoders_of_masked_images_are_left_out(prefix, tmp_path):
    wanted = timm.create_model("test_vit", num_classes=0).state_dict()
    content = {**wanted, **dict.fromkeys(DECODERS, torch.ones(5))}
    file = published.save(published.under(prefix, content), tmp_path / "w.pth")
    assert start_state(str(file), wanted=wanted).keys() == wanted.keys()


def test_a_network_with_a_decoder_keeps_it(tmp_path):
    wanted = dict.fromkeys(("stem.weight", "decoder.0.weight", "mask_token"), torch.ones(2))
    file = published.save({**wanted, "decoder.1.weight": torch.ones(2)}, tmp_path / "w.pth")
    assert start_state(str(file), wanted=wanted).keys() == wanted.keys()
