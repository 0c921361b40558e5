"""A user's network as a backbone, with its own names in state dicts.

Legend: N images, C features, H, W height and width of the last feature map.
"""

import sys
from collections.abc import Mapping

from torch import Tensor, nn

from ..console.wording import first_line
from ..errors import UserValueError
from ..registry import MODELS
from ..system.trusted_modules import import_named
from .timm_backbone import HiddenModule, split_norms


@MODELS.register_module()
class ModuleBackbone(HiddenModule):
    """Any network as a backbone. Its last output is used, as in detectors.

    Args:
        network: ``package.module:function``. The function, or a class, is called without arguments
            and returns the network with its initial weights.

    Raises:
        ValueError: There is no such function, or it does not return a module.
    """

    def __init__(self, network: str) -> None:
        super().__init__()
        self.model_name = network
        self.inner = _make(network)

    def init_weights(self) -> None:
        """Keep the initial weights of the network."""

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Return the last output (N, C, H, W) or (N, C) for ``images`` (N, 3, height, width)."""
        outputs = self.inner(images)
        outputs = [*outputs.values()] if isinstance(outputs, Mapping) else outputs
        last = outputs[-1] if isinstance(outputs, list | tuple) and outputs else outputs
        if not isinstance(last, Tensor) or last.dim() not in (2, 4):
            shape = f" {tuple(last.shape)}" if isinstance(last, Tensor) else ""
            raise UserValueError(
                "a backbone's last output must be a map (N, C, H, W) or a vector (N, C) for each "
                f"image, but the output of {self.model_name} is a {type(last).__name__}{shape}; "
                "give a module that returns one."
            )
        return (last,)


def _make(name: str) -> nn.Module:
    """Call ``package.module:function``."""
    module, _, function = name.partition(":")
    place = import_named(module)
    try:
        network = getattr(place, function)()
    except Exception as error:  # users' code may raise anything
        raise UserValueError(
            f"the backbone {name} must be a function without arguments, but calling it raises "
            f"{first_line(error)}; fix the function, or name one that gives it its arguments."
        ) from error
    if not isinstance(network, nn.Module):
        raise UserValueError(
            f"{name} must return a torch.nn.Module, but returns a {type(network).__name__}; "
            "return the network."
        )
    return split_norms(network.cpu()) if "timm.layers" in sys.modules else network.cpu()
