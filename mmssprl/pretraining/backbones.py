"""The backbones of ``pretrain``."""

from typing import Any

BACKBONES: dict[str, tuple[dict[str, Any], int]] = {
    "resnet18": ({"type": "ResNet", "depth": 18}, 512),
    "resnet50": ({"type": "ResNet", "depth": 50}, 2048),
    "vit-small": (
        {
            "type": "VisionTransformer",
            "arch": "deit-small",
            "img_size": 224,
            "patch_size": 16,
            "out_type": "avg_featmap",
        },
        384,
    ),
    "swin-tiny": ({"type": "SwinTransformer", "arch": "tiny", "pad_small_map": True}, 768),
}
"""mmpretrain's config of each backbone, and the size of its pooled features."""


def is_resnet(backbone: str) -> bool:
    """Whether a name in ``BACKBONES`` is of a network with BatchNorm; the others have none."""
    return BACKBONES[backbone][0]["type"] == "ResNet"
