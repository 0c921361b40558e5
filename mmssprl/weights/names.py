"""Translate the tensor names of other projects to ours, and to detectron2's."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from .._dependencies import is_importable
from .checkpoint_file import say_once

DETECTRON2_STEM = "stem.conv1.norm.weight"
"""A tensor that only detectron2's ResNets have."""
_PARTS = {
    **{f"conv{i}": f"conv{i}" for i in (1, 2, 3)},
    **{f"bn{i}": f"conv{i}.norm" for i in (1, 2, 3)},
    **{"downsample.0": "shortcut", "downsample.1": "shortcut.norm"},
}
"""Our names of the parts of a ResNet -> detectron2's."""


def to_detectron2(name: str) -> str | None:
    """Rename ``layer1.0.bn2.bias`` to ``res2.0.conv2.norm.bias``; None for a step counter."""
    found = re.fullmatch(r"(?:layer(\d)\.(\d+)\.)?(.+)\.(\w+)", name)
    if not found or found[4] == "num_batches_tracked":
        return None
    # detectron2 counts the stem as the first stage.
    place = f"res{int(found[1]) + 1}.{found[2]}" if found[1] else "stem"
    return f"{place}.{_PARTS[found[3]]}.{found[4]}"


def _from_detectron2(name: str) -> str:
    """Undo ``to_detectron2`` under any prefix; other names are returned unchanged."""
    ours = {theirs: part for part, theirs in _PARTS.items()}
    found = re.fullmatch(r"(.*\.)?(?:stem|res(\d)\.(\d+))\.(.+)\.(\w+)", name)
    if not found or found[4] not in ours:
        return name
    place = f"layer{int(found[2]) - 1}.{found[3]}." if found[2] else ""
    return f"{found[1] or ''}{place}{ours[found[4]]}.{found[5]}"


WRAPPERS = re.compile(r"(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""What torch's wrappers of a network or its parts add to names."""
_OF_SEQUENTIAL = {"0": "conv1", "1": "bn1", **{str(3 + i): f"layer{i}" for i in range(1, 5)}}
"""Indices in ``nn.Sequential(*resnet.children())``, as in lightly's files -> our names."""


def to_torchvision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename ResNets in wrappers, of detectron2 and in ``nn.Sequential``, under any prefix."""
    named = {WRAPPERS.sub("", key): value for key, value in state.items()}
    if any(key.endswith(DETECTRON2_STEM) for key in named):
        return {_from_detectron2(key): value for key, value in named.items()}

    found = (re.fullmatch(r"(.*\.|)4\.0\.conv1\.weight", key) for key in named)
    prefixes = {re.escape(each[1]) for each in found if each and f"{each[1]}0.weight" in named}
    if not prefixes:
        return named
    part = re.compile(rf"^({'|'.join(prefixes)})([014-7])\.")
    return {
        part.sub(lambda found: f"{found[1]}{_OF_SEQUENTIAL[found[2]]}.", key): value
        for key, value in named.items()
    }


_CHUNKED = re.compile(r"\bblocks\.\d+\.(?=\d+\.(?:norm|attn|ls|mlp)\d?\b)")


def unchunked(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Drop the numbers of chunks: in DINOv2's trainings, ``blocks.1.5.`` is the sixth block."""
    return {_CHUNKED.sub("blocks.", key): value for key, value in state.items()}


_OF_DINO = {"mask_token", "cls_token", "blocks.0.ls1.gamma"}
"""Names that only the files of DINOv2's and DINOv3's authors have."""
_OF_DINOV3 = "rope_embed.periods"
_LEFT_OUT = re.compile(r"mask_token|rope_embed\.|local_cls_norm\.|.+\.attn\.qkv\.bias_mask$")
"""Tensors that only pre-training needs, or that the architecture determines."""
_RENAMED = {
    r"(register|storage)_tokens$": "reg_token",
    r"\.mlp\.w12\.": ".mlp.fc1.",
    r"\.mlp\.w1\.": ".mlp.fc1_g.",
    r"\.mlp\.w2\.": ".mlp.fc1_x.",
    r"\.mlp\.w3\.": ".mlp.fc2.",
}


def from_dino_authors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors of DINOv2 (patch 14) or DINOv3 (patch 16) to timm's names.

    With registers, timm adds positions to patches only: the position of the class token is added
    to the token here. DINOv3 masks the bias of the keys, so only the biases of queries and values
    are kept, as in timm's ``_qkvb`` networks. Other files are returned unchanged.
    """
    if not state.keys() >= _OF_DINO:
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


_POSITIONS = "pos_embed"


def with_fitting_positions(
    state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], file: str | Path
) -> dict[str, Tensor]:
    """Interpolate the positions of a ViT (1, tokens, C) to a wanted square grid, as timm does.

    Other tensors are returned unchanged.
    """
    own = state.get(_POSITIONS)
    needed = wanted.get(_POSITIONS)
    if own is None or needed is None or not own.dim() == needed.dim() == 3:
        return dict(state)

    new = math.isqrt(needed.shape[1])
    num_prefix = needed.shape[1] - new**2  # tokens of the class, or none
    old = math.isqrt(max(0, own.shape[1] - num_prefix))

    is_square = own.shape[1] == old**2 + num_prefix > num_prefix
    is_same_width = own.shape[::2] == needed.shape[::2]
    if own.shape == needed.shape or not (is_square and is_same_width and is_importable("timm")):
        return dict(state)

    from timm.layers import resample_abs_pos_embed

    say_once(f"{file}: positions interpolated from {old} x {old} patches to {new} x {new}.")
    resized = resample_abs_pos_embed(own, [new, new], num_prefix_tokens=num_prefix)
    return {**state, _POSITIONS: resized}


_OF_TRANSFORMERS = re.compile(
    r"(?:^|\.)(?:embedder\.embedder\.convolution|embeddings\.(?:cls_token|class_embedding|patch_emb"
    r"edding)|attention\.(?:attention|self)\.query)"
)


def name_of_transformers(state: Iterable[str]) -> str | None:
    """Return the first name in the layout of Hugging Face's transformers, None if there is none."""
    return next((key for key in state if _OF_TRANSFORMERS.search(key)), None)
