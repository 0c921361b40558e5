"""A network of Hugging Face's transformers: a wrapper, and the classifier with its weights.

    mmssprl pretrain photos/ --backbone transformers_vit:backbone --teacher timm/NAME

A network that takes images of any size, such as ``ResNetModel``, needs no wrapper.
"""

import torch
from torch import nn
from transformers import ViTConfig, ViTForImageClassification, ViTModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

CONFIG = ViTConfig(
    hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768
)


class AnySizeViT(ViTModel):
    """ViT for views of several sizes: its positions are interpolated."""

    def forward(self, images: torch.Tensor) -> BaseModelOutputWithPooling:
        """Return tokens for images (B, 3, H, W)."""
        return super().forward(images, interpolate_pos_encoding=True)


def backbone() -> nn.Module:
    """Return the network with random weights; mmssprl trains its ``last_hidden_state``."""
    network = AnySizeViT(CONFIG, add_pooling_layer=False)
    # As in ViT's image processor.
    network.mean = (0.5, 0.5, 0.5)
    network.std = (0.5, 0.5, 0.5)
    return network


def load(weights: str, num_classes: int = 2) -> nn.Module:
    """Return a classifier with the network of a file."""
    config = ViTConfig(**{**CONFIG.to_dict(), "num_labels": num_classes})
    classifier = ViTForImageClassification(config)
    classifier.vit.load_state_dict(torch.load(weights, weights_only=True))
    return classifier
