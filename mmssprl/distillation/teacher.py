"""Frozen networks as teachers, which give feature maps of whole images.

Legend: B images, C channels of the map, h, w its rows and columns.
"""

import hashlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError, UserValueError, called
from ..features.backbone import FeatureBackbone, load_backbone
from ..models import ModuleBackbone, TimmBackbone
from ..models.module_backbone import first_line
from ..weights import TIMM, check_fit, start_state

_PROBE_PX = 224
"""A multiple of the strides 8, 14, 16 and 32; a test image is twice as wide as high."""


class Teacher(nn.Module):
    """A frozen network as a teacher; it maps uint8 images to its last feature map.

    Args:
        name: What it was given as.
        network: In eval mode.

    Attributes:
        stride: Pixels of a cell's side.
        channels: C.

    Raises:
        ValueError: It gives no map.
    """

    def __init__(self, name: str, network: FeatureBackbone) -> None:
        super().__init__()
        self.name, self.network = name, network.eval().requires_grad_(False)
        try:
            found = self(torch.zeros(1, 3, _PROBE_PX, 2 * _PROBE_PX, dtype=torch.uint8))
        except UserError:
            raise
        except Exception as error:  # whatever a network of other channels or sizes says
            raise UserValueError(
                f"a teacher must take RGB images of any size, but {name} raises "
                f"{first_line(error)}; give another."
            ) from error
        self.channels, self.stride = found.shape[1], _PROBE_PX // found.shape[2]

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Return the map (B, C, h, w) of uint8 images (B, 3, h stride, w stride)."""
        device = next(self.parameters()).device
        on_gpu = torch.autocast(device.type) if device.type == "cuda" else nullcontext()
        with on_gpu:
            found = self.network.forward_features(self.network.normalise(images.to(device)))
        inner = getattr(self.network.backbone, "inner", None)
        if found.dim() == 3:  # tokens of a transformer, those of its classes first
            tokens = found[:, getattr(inner, "num_prefix_tokens", 0) :]
            height, width = images.shape[-2:]
            rows = round((tokens.shape[1] * height / width) ** 0.5)
            if rows * round(rows * width / height) == tokens.shape[1]:
                return tokens.transpose(1, 2).unflatten(2, (rows, -1))
        elif found.dim() == 4:
            is_last = found.shape[3] == getattr(inner, "num_features", -1) != found.shape[1]
            return found.movedim(3, 1) if is_last else found
        raise UserValueError(
            f"a teacher must give a map of its features, but {self.name} gives "
            f"{tuple(found.shape[1:])} for an image; take a ResNet, another network of maps, or a "
            "ViT of timm."
        )

    def num_cells(self, px: int) -> int:
        """Return the most cells of the map of an image of about ``px`` squared."""
        return max(1, round(px / self.stride)) ** 2

    def digest(self) -> str:
        """Return a check sum of its weights."""
        total = hashlib.sha256()
        for key, value in self.state_dict().items():
            total.update(key.encode())
            total.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return total.hexdigest()


@called("teacher", field="--teacher")
def load_teacher(weights: str) -> Teacher:
    """Read a teacher: a file, 'supervised', timm/NAME[:FILE], or package.module:function.

    Raises:
        ValueError: Weights that do not fit, or a network without a map.
        OSError: A file that cannot be read, or weights that cannot be downloaded.
    """
    if weights.startswith(TIMM):
        name, _, file = weights.partition(":")
        timm = _of_timm(name.removeprefix(TIMM))
        wanted = timm.state_dict()
        state = start_state(file or name, wanted=wanted)
        check_fit(
            state, wanted, weights=weights, owner=name, remedy="give the file of its weights."
        )
        timm.load_state_dict(state, strict=False)
        cfg: Any = timm.inner.pretrained_cfg  # type: ignore[union-attr]
        mean, std = ([255 * value for value in cfg[key]] for key in ("mean", "std"))
        return Teacher(weights, FeatureBackbone(timm, mean=mean, std=std))
    if ":" in weights.replace("://", "") and not Path(weights).exists():
        own = FeatureBackbone(ModuleBackbone(weights))
        return Teacher(weights, own)
    network = load_backbone(weights)
    if hasattr(network.backbone, "out_type"):  # mmpretrain's transformers
        network.backbone.out_type = "featmap"  # type: ignore[assignment]
    return Teacher(weights, network)


def _of_timm(name: str) -> TimmBackbone:
    """Build a network of timm that gives its last map, of images of any size if it can."""
    try:
        return TimmBackbone(name, "featmap", {"dynamic_img_size": True})
    except TypeError:  # no argument of this network
        return TimmBackbone(name, "featmap")
