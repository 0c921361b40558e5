"""RTMDet of mmdetection: its backbone, and the detector's config with the pre-trained weights.

mmssprl pretrain photos/ --backbone mmdet_rtmdet:backbone --teacher timm/NAME
"""

from pathlib import Path

import mmdet
from mmdet.models.backbones import CSPNeXt
from mmengine.config import Config
from torch import nn

CONFIGS = Path(mmdet.__file__).parent / ".mim/configs"
BASE = CONFIGS / "rtmdet/rtmdet_tiny_8xb32-300e_coco.py"


def backbone() -> nn.Module:
    """Return the backbone with random weights; it gives a tuple of maps."""
    cfg = Config.fromfile(BASE).model.backbone
    cfg.pop("type")
    cfg.pop("init_cfg")  # ImageNet's weights from the internet
    return CSPNeXt(**cfg)


def load(weights: str) -> Config:
    """Return the detector's config, whose backbone starts from a file."""
    cfg = Config.fromfile(BASE)
    cfg.model.backbone.init_cfg = {"type": "Pretrained", "checkpoint": weights}
    # RTMDet reads BGR by numbers of its own; pre-training read RGB by ImageNet's.
    cfg.model.data_preprocessor.mean = [123.675, 116.28, 103.53]
    cfg.model.data_preprocessor.std = [58.395, 57.12, 57.375]
    cfg.model.data_preprocessor.bgr_to_rgb = True
    return cfg
