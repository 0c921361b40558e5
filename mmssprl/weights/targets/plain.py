"""Files with mmpretrain's own names, the backbone's or those of the whole model."""

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save

from ...models import FeatureQueue, is_pretraining
from ...system.outputs import whole_file
from ..backbone import build_model, load_backbone
from ..checkpoint_file import read_state
from .target import Loaded, Source, last_and_pooled

_HOW_TO_GO_ON = (
    "Go on pre-training with it: load_from='FILE' in the config.",
    "Go on pre-training with it: model.load_state_dict(safetensors.torch.load_file('FILE')); "
    "mmengine's load_from takes a .pth.",
)
"""From a file of torch.save, from safetensors."""


def write_state(source: Source, path: Path) -> None:
    """Write a state dict as safetensors or as ``torch.save`` does, as the name says.

    The metadata of safetensors hold the backbone's config as JSON.
    """
    # Copies in plain memory order: safetensors takes no shared and no channels-last tensors.
    state = {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in source.state.items()
    }
    with whole_file(path, "wb") as file:
        if path.suffix != ".safetensors":
            torch.save(state, file)
            return
        architecture = json.dumps(source.cfg.model.backbone.to_dict(), default=str)
        # Not save_file: its files can be read by their owner alone.
        file.write(save(state, {"format": "pt", "architecture": architecture}))


def load_own(path: Path, source: Source, *notes: str) -> Loaded:
    """Read a file of backbone weights into the mmpretrain backbone, all of it."""
    backbone = load_backbone(str(path), source.cfg)
    return Loaded(
        model=f"mmpretrain {source.architecture}",
        run=last_and_pooled(backbone),
        file=read_state(path),
        state=backbone.state_dict(),
        notes=notes,
    )


def load_whole(path: Path, source: Source) -> Loaded:
    """Read a file of all weights into the algorithm of the config, strictly.

    Queues come back in the shape of this process: their module drops the rows of other ranks, so
    they are compared in the file alone.
    """
    file = read_state(path)
    if not is_pretraining(source.cfg):
        note = (
            "The config describes no pre-training model: heads were compared tensor by tensor, "
            "and not loaded into a model."
        )
        return replace(load_own(path, source, note), state=file)
    with torch.random.fork_rng(devices=[]):
        algorithm = build_model(source.cfg.model)
    algorithm.load_state_dict(dict(file))
    algorithm.eval()
    queues = tuple(
        f"{name}." for name, part in algorithm.named_modules() if isinstance(part, FeatureQueue)
    )
    of_queues = {name: value for name, value in file.items() if name.startswith(queues)}
    return Loaded(
        model=f"mmssprl {type(algorithm).__name__} with {source.architecture}",
        run=last_and_pooled(algorithm.backbone),
        file=file,
        state={**algorithm.state_dict(), **of_queues},
        notes=(_HOW_TO_GO_ON[path.suffix == ".safetensors"],),
    )
