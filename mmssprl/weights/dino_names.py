"""Vision transformers of DINOv2 and DINOv3 as their authors name the tensors, in timm's names.

Their files are bare state dicts: https://github.com/facebookresearch/dinov2 and .../dinov3.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

_MARKERS = {"mask_token", "cls_token", "blocks.0.ls1.gamma"}
"""Names that their files have, and no others."""
_OF_DINOV3 = "rope_embed.periods"
_LEFT_OUT = re.compile(r"mask_token|rope_embed\.|local_cls_norm\.|.+\.attn\.qkv\.bias_mask$")
"""What pre-training alone needs, or follows from the architecture."""
_RENAMED = {
    r"(register|storage)_tokens$": "reg_token",
    r"\.mlp\.w12\.": ".mlp.fc1.",
    r"\.mlp\.w1\.": ".mlp.fc1_g.",
    r"\.mlp\.w2\.": ".mlp.fc1_x.",
    r"\.mlp\.w3\.": ".mlp.fc2.",
}


def from_dino_authors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors of DINOv2 (patch 14) or DINOv3 (patch 16); other files stay as they are.

    timm adds the positions to the patches alone where there are registers, so that of the class
    token goes into the token. DINOv3's keys have no bias, whatever its file holds for them: queries
    and values keep theirs, which timm's networks that end in ``_qkvb`` have.
    """
    if not state.keys() >= _MARKERS:
        return dict(state)
    named = {}
    for name, value in state.items():
        if _LEFT_OUT.match(name):
            continue
        for pattern, ours in _RENAMED.items():
            name = re.sub(pattern, ours, name)
        if _OF_DINOV3 in state:
            name = re.sub(r"\.ls([12])\.gamma$", r".gamma_\1", name)
            if name.endswith(".attn.qkv.bias"):
                place = name.removesuffix("qkv.bias")
                named[f"{place}q_bias"], _, named[f"{place}v_bias"] = value.chunk(3)
                continue
        named[name] = value
    if "reg_token" in named and "pos_embed" in named:
        of_class, of_patches = torch.tensor_split(named["pos_embed"], [1], dim=1)  # (1, 1 + P, C)
        named |= {"cls_token": named["cls_token"] + of_class, "pos_embed": of_patches}
    return named
