"""A detector of torchvision: the body of its backbone, and the detector with its weights.

mmssprl pretrain photos/ --backbone torchvision_detection:backbone --teacher timm/NAME
"""

import torch
from torch import nn
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn


def detector(num_classes: int = 91) -> nn.Module:
    """Return the detector with random weights."""
    return fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=num_classes
    )


def backbone() -> nn.Module:
    """Return the body, which gives a dict of maps; mmssprl trains the last one."""
    return detector().backbone.body


def load(weights: str, num_classes: int = 91) -> nn.Module:
    """Return the detector with the body of a file."""
    network = detector(num_classes)
    network.backbone.body.load_state_dict(torch.load(weights, weights_only=True))
    return network


def train_step(network: nn.Module, images: list[torch.Tensor], targets: list[dict]) -> float:
    """Take one step; images (3, H, W) in [0, 1], which the detector normalises by itself."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    network.train()
    loss = sum(network(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
