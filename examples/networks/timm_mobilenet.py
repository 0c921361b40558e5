"""A network of timm by its name, and the classifier with its weights.

mmssprl pretrain photos/ --backbone timm/mobilenetv3_small_100 --teacher timm/NAME
"""

import timm
import torch
from torch import nn

NAME = "mobilenetv3_small_100"


def load(weights: str, num_classes: int = 10) -> nn.Module:
    """Return a classifier with the network of a file; only its last layer is new."""
    network = timm.create_model(NAME, num_classes=num_classes)
    state = torch.load(weights, weights_only=True)
    missing, unexpected = network.load_state_dict(state, strict=False)
    if unexpected or any(not key.startswith("classifier.") for key in missing):
        raise ValueError(f"{weights} is of another network: {missing}, {unexpected}")
    return network
