"""A Faster R-CNN of detectron2 on a pre-trained ResNet-18. detectron2 reads its own names.

mmssprl pretrain photos/ --backbone resnet18 --teacher timm/NAME
"""

from pathlib import Path

from detectron2.checkpoint import DetectionCheckpointer
from detectron2.config import CfgNode
from detectron2.engine import SimpleTrainer
from detectron2.model_zoo import get_config
from detectron2.modeling import build_model
from torch import nn, optim

import mmssprl

BASE = "COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml"


def config(weights: str) -> CfgNode:
    """Return the config of the detector with the backbone of a file."""
    file = Path(weights).with_suffix(".pkl")
    mmssprl.export(weights, "detectron2", file, overwrite=True)
    cfg = get_config(BASE)
    cfg.MODEL.WEIGHTS = str(file)
    cfg.MODEL.BACKBONE.FREEZE_AT = 0
    cfg.MODEL.RESNETS.DEPTH = 18
    cfg.MODEL.RESNETS.RES2_OUT_CHANNELS = 64
    cfg.MODEL.RESNETS.STRIDE_IN_1X1 = False
    cfg.MODEL.RESNETS.NORM = "BN"  # SyncBN on several GPUs
    # Pre-training read RGB by ImageNet's numbers.
    cfg.INPUT.FORMAT = "RGB"
    cfg.MODEL.PIXEL_MEAN = [123.675, 116.28, 103.53]
    cfg.MODEL.PIXEL_STD = [58.395, 57.12, 57.375]
    return cfg


def load(weights: str, device: str = "cuda") -> nn.Module:
    """Return the detector with the backbone of a file."""
    cfg = config(weights)
    cfg.MODEL.DEVICE = device
    network = build_model(cfg)
    DetectionCheckpointer(network).load(cfg.MODEL.WEIGHTS)
    return network


def train_step(network: nn.Module, inputs: list[dict]) -> None:
    """Take one step in detectron2's trainer; it raises FloatingPointError for a loss of NaN."""
    optimizer = optim.SGD(network.parameters(), lr=0.001)
    trainer = SimpleTrainer(network.train(), [inputs], optimizer)
    trainer.train(start_iter=0, max_iter=1)
