"""Frozen networks as teachers, which give feature maps of whole images.

Legend: B images, C channels of the map, h, w its rows and columns.
"""

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn

from ..console.wording import first_line
from ..errors import UserError, UserValueError, called
from ..features.backbone import FeatureBackbone, load_backbone
from ..models import pretraining_class
from ..pixels import Pixels
from ..weights import Source

_PROBE_PX = 224  # a multiple of the strides 8, 14, 16 and 32
_ANSWERS = 32


class Teacher(nn.Module):
    """A frozen network that maps uint8 images to its last feature map.

    Args:
        name: The weights as the user gave them.
        network: The network with its weights.

    Attributes:
        stride: Side of a cell of the map, in pixels.
        answer: Some values of the map of a fixed image, by the CPU.

    Raises:
        ValueError: The network gives no map of square cells, or learned from images that are not
            8-bit RGB.
    """

    def __init__(self, name: str, network: FeatureBackbone) -> None:
        super().__init__()
        self.name = name
        self.network = network.eval().requires_grad_(False)
        if network.pixels not in (None, Pixels(3, "uint8")):
            raise UserValueError(
                f"a teacher must take 8-bit RGB images, but {name} takes {network.pixels}; give "
                "another."
            )

        try:
            found = self(_stripes())
        except UserError:
            raise
        except Exception as error:  # whatever a network of other channels or sizes says
            raise UserValueError(
                f"a teacher must take RGB images of any size, but {name} raises "
                f"{first_line(error)}; give another."
            ) from error

        self.stride = max(1, _PROBE_PX // found.shape[2])
        self.check_grid(found, _PROBE_PX, 2 * _PROBE_PX)
        places = np.linspace(0, found.numel() - 1, _ANSWERS).astype(int)
        self.answer = found.flatten()[places].tolist()

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

    def check_grid(self, maps: Tensor, height: int, width: int) -> None:
        """Raise ValueError unless maps (B, C, h, w) have the grid of images of these pixels."""
        rows, columns = maps.shape[2:]
        if (rows, columns) != (height // self.stride, width // self.stride):
            raise UserValueError(
                "a teacher's map must have a cell for each square of the image, but the map of "
                f"{self.name} has {rows} x {columns} cells for {height} x {width} px; give a "
                "network that neither crops its borders nor pools to a fixed size."
            )

    def about(self) -> dict[str, Any]:
        """Return what must be equal for equal maps: timm's network, normalisation and weights."""
        return {
            "network": Source.of(self.name).timm,
            "mean": [*self.network.mean],
            "deviation": [*self.network.std],
            "weights": self.digest(),
        }

    def answers(self, kept: Sequence[float]) -> bool:
        """Whether the answer is the ``kept`` one, to a twentieth.

        It cannot be equal to the bit: another number of threads changed up to 1e-6 of networks of
        timm, bfloat16 up to 3 %. Two channels that swap changed 30 % and more of random networks.
        """
        found = np.array(self.answer)
        return bool(np.allclose(kept, found, rtol=0.05, atol=0.05 * np.abs(found).mean()))

    def digest(self) -> str:
        """Return a checksum of the weights."""
        total = hashlib.sha256()
        for key, value in self.state_dict().items():
            total.update(key.encode())
            total.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return total.hexdigest()


def _stripes() -> Tensor:
    """Return an image, uint8 (1, 3, 224, 448), with other stripes in each channel."""
    y, x = torch.meshgrid(torch.arange(_PROBE_PX), torch.arange(2 * _PROBE_PX), indexing="ij")
    stripes = torch.stack([y + 3 * x, 5 * y + 2 * x, 2 * y + 7 * x]) % 256
    return stripes.to(torch.uint8)[None]


@called("teacher must", field="weights must")
def load_teacher(weights: str, run: Config | None = None) -> Teacher:
    """Read a teacher: a file, 'supervised', timm/NAME[:FILE], or package.module:function.

    ``run`` is the config of the training. If it is anchored to the weights that it starts from, the
    network is its backbone.

    Raises:
        ValueError: Weights that do not fit, or a network without a map.
        OSError: A file that cannot be read, or weights that cannot be downloaded.
    """
    kind = pretraining_class(run) if run else None
    is_start = kind is not None and kind.teacher_is_start and not Source.of(weights).network
    return Teacher(weights, load_backbone(weights, run if is_start else None))
