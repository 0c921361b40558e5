"""SegFormer of mmsegmentation: its backbone, and the segmenter's config with the weights.

mmssprl pretrain photos/ --backbone mmseg_segformer:backbone --teacher timm/NAME
"""

from pathlib import Path

import mmseg
from mmengine.config import Config
from mmseg.models.backbones import MixVisionTransformer
from torch import nn

CONFIGS = Path(mmseg.__file__).parent / ".mim/configs"
BASE = CONFIGS / "segformer/segformer_mit-b0_8xb2-160k_ade20k-512x512.py"


def backbone() -> nn.Module:
    """Return the backbone with random weights; it gives a list of maps."""
    cfg = Config.fromfile(BASE).model.backbone
    cfg.pop("type")
    cfg.pop("init_cfg", None)  # ImageNet's weights from the internet
    return MixVisionTransformer(**cfg)


def load(weights: str) -> Config:
    """Return the segmenter's config, whose backbone starts from a file; it reads RGB as we do."""
    cfg = Config.fromfile(BASE)
    cfg.model.backbone.init_cfg = {"type": "Pretrained", "checkpoint": weights}
    return cfg
