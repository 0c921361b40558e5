"""The architecture that a file of weights looks like, for messages about files that do not fit.

Names and shapes of tensors tell the family, its widths and its blocks. No network is built.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from .._dependencies import is_importable

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of the tensors of a network by name."""
_SIZES = {384: "small", 768: "base", 1024: "large", 1280: "huge", 1536: "giant"}
"""timm's word for the width of a ViT of DINO."""
_DEPTHS = (10, 14, 18, 26, 34, 50, 101, 152)
"""Depths of timm's ResNets."""
_OF_RESNET = re.compile(
    r"(?:layer\d\.\d+\.)?(?:conv\d|bn\d|downsample\.[01]|fc)\."
    r"(?:weight|bias|running_mean|running_var|num_batches_tracked)"
)
"""Names of all tensors of a plain ResNet."""
_MOST_STAGES = 8


@dataclass(frozen=True)
class Architecture:
    """A network as its tensors show it.

    Widths and blocks are listed by stage. What does not apply is (), 0 or ''.
    """

    family: str  # such as "a ViT"
    widths: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    patch_px: int = 0
    timm_name: str = ""

    def __str__(self) -> str:
        several = "s" if len(self.widths) > 1 else ""
        parts = [
            self.family,
            f"of width{several} {listed(self.widths)}" if self.widths else "",
            f"with {listed(self.blocks)} blocks" if self.blocks else "",
            f"and {self.patch_px} px patches" if self.patch_px else "",
        ]
        text = " ".join(filter(None, parts))
        return f"{text}, as timm/{self.timm_name}" if self.timm_name else text

    def differs_in_width(self, other: "Architecture") -> bool:
        """Whether only the widths tell this architecture from another one."""
        own = replace(self, widths=other.widths, timm_name=other.timm_name)
        return own == other and self.widths != other.widths


def architecture_of(state: Mapping[str, Tensor]) -> Architecture | None:
    """Return the architecture of a network, below any prefix; None if it is not recognised."""
    for signature, describe in _FAMILIES.items():
        pattern = re.compile(rf"(|.*?\.)(?:{signature})")
        prefixes = [match[1] for match in map(pattern.fullmatch, state) if match]
        if not prefixes:
            continue
        prefix = min(prefixes, key=len)
        below = {key.removeprefix(prefix): key for key in state if key.startswith(prefix)}
        found = describe({name: tuple(state[key].shape) for name, key in below.items()})
        if found is not None:
            return found
    return None


def _vit(shapes: Shapes) -> Architecture | None:
    patches = shapes.get("patch_embed.proj.weight", ())
    if len(patches) != 4:
        return None
    width, _, _, patch_px = patches
    blocks = _count(shapes, r"blocks\.(\d+)\.")
    size = _SIZES.get(width)

    def has(*names: str) -> bool:
        return any(name in shapes for name in names)

    family = "a ViT"
    name = ""
    # DINO's authors and timm have other names of the same tensors.
    if has("rope_embed.periods") or (has("reg_token") and not has("pos_embed")):
        family = "a ViT of DINOv3"
        plus = "_plus" if has("blocks.0.mlp.fc1_g.weight", "blocks.0.mlp.w1.weight") else ""
        biases = "_qkvb" if has("blocks.0.attn.q_bias", "blocks.0.attn.qkv.bias") else ""
        name = f"vit_{size}{plus}_patch{patch_px}_dinov3{biases}"
    elif has("blocks.0.ls1.gamma") and patch_px == 14:
        family = "a ViT of DINOv2"
        registers = "_reg4" if has("reg_token", "register_tokens") else ""
        name = f"vit_{size}_patch14{registers}_dinov2"
    return Architecture(family, (width,), (blocks,), patch_px, _of_timm(name) if size else "")


def _swin(shapes: Shapes) -> Architecture | None:
    patches = shapes.get("patch_embed.proj.weight", ())
    if len(patches) != 4:
        return None
    blocks = _stages(shapes, r"layers\.{}\.blocks\.(\d+)\.")
    return Architecture("a Swin", patches[:1], blocks, patches[3])


def _resnet(shapes: Shapes) -> Architecture | None:
    blocks = _stages(shapes, r"layer{}\.(\d+)\.")
    second = shapes.get("layer1.0.conv2.weight", ())
    if len(blocks) != 4 or len(second) != 4:
        return None

    has_bottlenecks = "layer1.0.conv3.weight" in shapes
    depth = (3 if has_bottlenecks else 2) * sum(blocks) + 2
    width, inputs, *_ = second
    if inputs != width:
        return Architecture(f"a ResNeXt-{depth}", (width,))
    if depth not in _DEPTHS:
        return Architecture("a network like a ResNet", (width,), blocks)

    # Other stems, attention and norms have other tensors.
    is_plain = {"conv1.weight", "bn1.running_mean"} <= shapes.keys()
    is_plain = is_plain and all(map(_OF_RESNET.fullmatch, shapes))
    name = _of_timm(f"resnet{depth}") if is_plain and width == 64 else ""
    return Architecture(f"a ResNet-{depth}", (width,), timm_name=name)


def _convnext(shapes: Shapes) -> Architecture | None:
    depthwise = re.compile(r"stages\.\d\.(?:blocks\.0\.conv_dw|0\.dwconv)\.weight")
    widths = tuple(shape[0] for name, shape in shapes.items() if depthwise.fullmatch(name))
    blocks = _stages(shapes, r"stages\.{}\.(?:blocks\.)?(\d+)\.")
    family = "a ConvNeXt"
    if "stages.0.0.dwconv.weight" in shapes:
        family += " with its authors' names (take timm's file instead)"
    return Architecture(family, widths, blocks)


def _efficientnet(shapes: Shapes) -> Architecture | None:
    ends = (shapes.get(f"{name}.weight") for name in ("conv_stem", "conv_head"))
    widths = tuple(shape[0] for shape in ends if shape)
    blocks = _stages(shapes, r"blocks\.{}\.(\d+)\.")
    return Architecture("an EfficientNet or MobileNet of timm", widths, blocks)


_TORCHVISION = r"encoder\.layers\.encoder_layer_0\.ln_1\.weight|features\.\w+\.(?:.+\.)?weight"
_FAMILIES = {
    r"layers\.0\.blocks\.0\.attn\.qkv\.weight": _swin,
    r"blocks\.0\.norm1\.weight": _vit,
    r"layer1\.0\.conv1\.weight": _resnet,
    r"stages\.0\.(?:blocks\.0\.conv_dw|0\.dwconv)\.weight": _convnext,
    r"blocks\.0\.0\.conv\w*\.weight": _efficientnet,
    _TORCHVISION: lambda shapes: Architecture("a network of torchvision"),
}
"""A tensor that each network of a family has, and what describes the network."""


def _of_timm(name: str) -> str:
    """Return the name if timm has such a network, or ''."""
    if not is_importable("timm"):
        return ""
    import timm

    return name if timm.is_model(name) else ""


def _count(shapes: Shapes, pattern: str) -> int:
    """Return how many numbers the names have at a place."""
    return len({found[1] for found in map(re.compile(pattern).match, shapes) if found})


def _stages(shapes: Shapes, pattern: str) -> tuple[int, ...]:
    """Return the blocks of each stage, by a pattern with the stage's number in braces."""
    counts = [_count(shapes, pattern.format(stage)) for stage in range(_MOST_STAGES)]
    return tuple(filter(None, counts))


def listed(numbers: tuple[int, ...]) -> str:
    """Return numbers with commas."""
    return ", ".join(map(str, numbers))
