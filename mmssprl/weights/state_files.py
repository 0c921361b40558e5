"""Export backbones as state dicts, and read such files into their network."""

from collections.abc import Mapping
from pathlib import Path

import torch
from mmengine.config import Config
from safetensors.torch import save
from torch import Tensor, nn

from ..system.outputs import whole_file
from .backbone import load_network
from .pooled import Pooled


def write_pth(backbone: nn.Module, cfg: Config, path: Path) -> None:
    """Write a state dict by ``torch.save``."""
    with whole_file(path, "wb") as file:
        torch.save(_contiguous(backbone.state_dict()), file)


def write_safetensors(backbone: nn.Module, cfg: Config, path: Path) -> None:
    """Write a state dict as safetensors."""
    content = save(_contiguous(backbone.state_dict()), {"format": "pt"})
    # safetensors' save_file would make a file that only its owner can read.
    with whole_file(path, "wb") as file:
        file.write(content)


def read_state_file(path: Path, cfg: Config) -> Pooled:
    """Load all tensors of a file into the network of a config."""
    return Pooled(load_network(str(path), cfg))


def _contiguous(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors: safetensors takes neither shared nor channels-last ones."""
    return {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in state.items()
    }
