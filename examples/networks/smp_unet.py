"""A network of segmentation_models_pytorch: its encoder, and the U-Net with its weights.

mmssprl pretrain photos/ --backbone smp_unet:backbone --teacher timm/NAME
"""

import segmentation_models_pytorch as smp
import torch
from torch import nn

ENCODER = "mobilenet_v2"


def unet(num_classes: int = 1) -> nn.Module:
    """Return a U-Net with random weights."""
    return smp.Unet(ENCODER, encoder_weights=None, classes=num_classes)


def backbone() -> nn.Module:
    """Return the encoder, which gives a list of maps; mmssprl trains the last one."""
    return unet().encoder


def load(weights: str, num_classes: int = 1) -> nn.Module:
    """Return the U-Net with the encoder of a file."""
    network = unet(num_classes)
    network.encoder.load_state_dict(torch.load(weights, weights_only=True))
    return network


def train_step(network: nn.Module, images: torch.Tensor, masks: torch.Tensor) -> float:
    """Take one step; normalised images (B, 3, H, W) and masks of one class (B, 1, H, W)."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    loss = smp.losses.DiceLoss("binary")(network.train()(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
