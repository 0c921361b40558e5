"""A user's network as a backbone, with its own names in state dicts.

Legend: N images, C features, H, W height and width of the last feature map.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

from mmengine.registry import DefaultScope
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from ..console.wording import first_line
from ..errors import UserValueError
from ..registry import MODELS
from ..system.trusted_modules import import_named
from .replacement import replace_modules
from .timm_backbone import HiddenModule, map_of_tokens, split_norms


@MODELS.register_module()
class ModuleBackbone(HiddenModule):
    """Any network as a backbone. Its last output is used, as in detectors.

    Of an output of Hugging Face's transformers, ``last_hidden_state`` is used, tokens as a map.

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
        return (self.last_of(self.inner(images), images),)

    def last_of(self, outputs: Any, images: Tensor) -> Tensor:
        """Return the last of what the network returned for ``images``.

        Raises:
            ValueError: It is neither a map (N, C, H, W) nor a vector (N, C).
        """
        last = self._last_of(outputs, images)
        if not isinstance(last, Tensor) or last.dim() not in (2, 4):
            shape = f" {tuple(last.shape)}" if isinstance(last, Tensor) else ""
            raise UserValueError(
                "a backbone's last output must be a map (N, C, H, W) or a vector (N, C) for each "
                f"image, but the output of {self.model_name} is a {type(last).__name__}{shape}; "
                "give a module that returns one."
            )
        # The images are compared last: an exported graph would take square ones only.
        has_them_last = last.dim() == 4 and last.shape[1] == last.shape[2] != last.shape[3]
        if has_them_last and images.shape[-2] == images.shape[-1]:
            raise UserValueError(
                "the backbone must return a map (N, C, h, w), but for square images "
                f"{self.model_name} gives {tuple(last.shape)}, with the features last; return "
                "maps.permute(0, 3, 1, 2)."
            )
        return last

    def _last_of(self, outputs: Any, images: Tensor) -> Any:
        """Return the last of the outputs; of transformers' outputs, the map of the last layer."""
        hidden = getattr(outputs, "last_hidden_state", None)
        if isinstance(hidden, Tensor):
            return hidden if hidden.dim() != 3 else self._map_of(hidden, images)
        # Backbones of transformers return a tuple of maps in a dict.
        while isinstance(outputs, Mapping | list | tuple) and outputs:
            outputs = [*(outputs.values() if isinstance(outputs, Mapping) else outputs)][-1]
        return outputs

    def _map_of(self, tokens: Tensor, images: Tensor) -> Tensor:
        """Return the map of tokens (N, T, C), without the special tokens in front of it."""
        num_tokens = tokens.shape[1]
        patch_px = getattr(getattr(self.inner, "config", None), "patch_size", None)
        num_cells = num_tokens
        if isinstance(patch_px, int):
            height, width = (side // patch_px for side in images.shape[-2:])
            num_cells = min(num_tokens, height * width)
        side = math.isqrt(num_cells)
        if side**2 != num_cells and images.shape[-1] == images.shape[-2]:
            raise UserValueError(
                f"the tokens of a square image must be a square, but {self.model_name} returns "
                f"{num_tokens} for {tuple(images.shape[-2:])} px; let its forward return the map "
                "(N, C, H, W)."
            )
        return map_of_tokens(tokens[:, num_tokens - num_cells :], images)


def _make(name: str) -> nn.Module:
    """Call ``package.module:function``."""
    module, _, function = name.partition(":")
    place = import_named(module)
    try:
        # A function of an OpenMMLab package may change the scope, in which our parts are built.
        with DefaultScope.overwrite_default_scope("mmssprl"):
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
    network = replace_modules(network, _uncompiled)
    _check_parameters(name, network)
    return split_norms(network.cpu()) if "timm.layers" in sys.modules else network.cpu()


def refuse_reused(network: ModuleBackbone) -> None:
    """Raise ValueError if the function of a network returns the same parameters at each call.

    Planning times steps of its own network, and a teacher is frozen.
    """
    own = {*network.inner.parameters()}
    if any(value in own for value in _make(network.model_name).parameters()):
        raise UserValueError(
            f"{network.model_name} must return a new network at each call, but returns the same "
            "parameters again, which a teacher or a trial would change; create the network in the "
            "function."
        )


def _uncompiled(part: Any) -> nn.Module:
    """Undo ``torch.compile``, which renames the tensors of a module."""
    original = getattr(part, "_orig_mod", None)
    return _uncompiled(original) if isinstance(original, nn.Module) else part


def _check_parameters(name: str, network: nn.Module) -> None:
    """Raise ValueError for parameters that have no values yet."""
    for key, value in network.named_parameters():
        if isinstance(value, UninitializedParameter) or value.is_meta:
            raise UserValueError(
                f"the parameters of {name} must have values, but {key} has none; let the function "
                "call a lazy network once on an image, or load its weights."
            )
