"""Files of timm with classifiers of many names."""

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


@pytest.mark.parametrize(("network", "name"), CLASSIFIERS.items())
def test_classifiers_of_timm_are_left_out(network, name, tmp_path):
    listed = timm.get_pretrained_cfg(network).classifier
    assert name.removesuffix(".weight") in ((listed,) if isinstance(listed, str) else listed)
    wanted = timm.create_model("test_vit", num_classes=0).state_dict()
    file = published.save({**wanted, name: torch.ones(5, 2)}, tmp_path / "w.pth")
    state = start_state(str(file), wanted=wanted)
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[key], value) for key, value in wanted.items())
