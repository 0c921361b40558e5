"""YOLO11 of ultralytics (AGPL-3.0): its backbone, and the detector with the pre-trained weights.

mmssprl pretrain photos/ --backbone ultralytics_yolo11:backbone --teacher timm/NAME
"""

from pathlib import Path

import torch
from torch import nn
from ultralytics import YOLO

MODEL = "yolo11n.yaml"
NUM_LAYERS = 11
"""Layers 0 to 10 are the backbone; those after them join its maps and detect."""


def backbone() -> nn.Module:
    """Return the backbone with random weights."""
    layers = YOLO(MODEL).model.model[:NUM_LAYERS]
    # ultralytics only divides images by 255: train with the same numbers.
    layers.mean = (0.0, 0.0, 0.0)
    layers.std = (1.0, 1.0, 1.0)
    return layers


def load(weights: str) -> YOLO:
    """Return the detector with the backbone of a file, from its checkpoint ``yolo11.pt``."""
    detector = YOLO(MODEL)
    state = torch.load(weights, weights_only=True)
    detector.model.model[:NUM_LAYERS].load_state_dict(state)
    # `train` builds the network again with the weights of a checkpoint. `detector.save` would
    # round them to half precision.
    checkpoint = Path(weights).with_name("yolo11.pt")
    torch.save({"model": detector.model}, checkpoint)
    return YOLO(checkpoint)


def train(detector: YOLO, data: str, **options: object) -> None:
    """Train on a data.yaml in ultralytics' trainer."""
    detector.train(data=data, **options)
