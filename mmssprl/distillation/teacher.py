"""Frozen networks as teachers, which give feature maps of whole images.

Legend: B images, C channels of the map, h, w its rows and columns.
"""

import hashlib
from contextlib import nullcontext

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ..errors import UserError, UserValueError, called
from ..features.backbone import FeatureBackbone, load_backbone
from ..models.module_backbone import first_line
from ..weights import names_network

_PROBE_PX = 224  # a multiple of the strides 8, 14, 16 and 32


class Teacher(nn.Module):
    """A frozen network that maps uint8 images to its last feature map.

    Args:
        name: The weights as the user gave them.
        network: The network with its weights.

    Attributes:
        stride: Side of a cell of the map, in pixels.

    Raises:
        ValueError: The network gives no map.
    """

    def __init__(self, name: str, network: FeatureBackbone) -> None:
        super().__init__()
        self.name, self.network = name, network.eval().requires_grad_(False)
        try:  # an image twice as wide as high
            found = self(torch.zeros(1, 3, _PROBE_PX, 2 * _PROBE_PX, dtype=torch.uint8))
        except UserError:
            raise
        except Exception as error:  # whatever a network of other channels or sizes says
            raise UserValueError(
                f"a teacher must take RGB images of any size, but {name} raises "
                f"{first_line(error)}; give another."
            ) from error
        self.stride = _PROBE_PX // found.shape[2]

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Return the map (B, C, h, w) of uint8 images (B, 3, h stride, w stride)."""
        device = next(self.parameters()).device
        inputs = self.network.normalise(images.to(device))
        with torch.autocast(device.type) if device.type == "cuda" else nullcontext():
            return self.network.feature_map(inputs)

    def num_cells(self, px: int) -> int:
        """Return the number of cells of the map of an image of ``px`` squared."""
        return max(1, round(px / self.stride)) ** 2

    def digest(self) -> str:
        """Return a checksum of the weights."""
        total = hashlib.sha256()
        for key, value in self.state_dict().items():
            total.update(key.encode())
            total.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return total.hexdigest()


@called("teacher must", field="weights must")
def load_teacher(weights: str, run: Config | None = None) -> Teacher:
    """Read a teacher: a file, 'supervised', timm/NAME[:FILE], or package.module:function.

    ``run`` is the config of the training. If it is anchored to the weights that it starts from, the
    network is its backbone.

    Raises:
        ValueError: Weights that do not fit, or a network without a map.
        OSError: A file that cannot be read, or weights that cannot be downloaded.
    """
    anchored = not names_network(weights) and run and run.model.type == "AnchoredSSPRL"
    return Teacher(weights, load_backbone(weights, run if anchored else None))
