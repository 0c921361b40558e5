"""The model of a runner without its wrapper."""

from typing import Any

from mmengine.model import is_model_wrapper
from torch import nn


def unwrap(model: nn.Module) -> Any:
    """Return the model inside a DDP wrapper, or the model itself."""
    return model.module if is_model_wrapper(model) else model
