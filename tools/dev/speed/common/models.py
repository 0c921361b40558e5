"""The shipped ResNet-50 models, their batches and optimizers, as all measurements build them.

Legend: B images, N_g crops per image in resolution group g, px the group's crop side.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmssprl.datasets import UnlabeledImages
from mmssprl.engine import larc
from mmssprl.functional import photometric
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS, OPTIM_WRAPPERS, OPTIMIZERS

CONFIGS = Path(__file__).resolve().parents[4] / "configs" / "ssprl"
SHIPPED = {
    28: "ssprl_resnet50_2xb64-coslr-200e_coco.py",
    34: "ssprl-released_resnet50_2xb64-coslr-200e_coco.py",
}
"""The shipped ResNet-50 config of each number of crops per image."""

Batch = dict[str, list[Tensor]]


def shipped_config(num_crops: int = 28) -> Config:
    """Read the shipped ResNet-50 config whose layout has this many crops per image."""
    return Config.fromfile(CONFIGS / SHIPPED[num_crops])


def build_model(cfg: Mapping) -> Any:
    """Build a config's model with the weights of its constructors, in training mode.

    The queues are as in the config, and an epoch has 10 iterations.
    """
    model = MODELS.build({"_scope_": "mmssprl", **cfg["model"]})
    model.on_epoch_length(10)
    return model.train()


def build_optimizer(cfg: Mapping, model: nn.Module) -> Any:
    """Build the config's optimizer in mmengine's wrapper."""
    optimizer = OPTIMIZERS.build(
        {**cfg["optim_wrapper"]["optimizer"], "params": model.parameters()}
    )
    return OPTIM_WRAPPERS.build({"type": "OptimWrapper", "optimizer": optimizer})


def random_batch(layout: ViewLayout, batch_size: int, device: str | torch.device = "cpu") -> Batch:
    """Return a batch as the loader gives it: uint8 noise (B, N_g, 3, px, px), channel last."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch_size, group.num_crops, group.px, group.px, 3) for group in layout.groups]
    noise = [torch.randint(256, s, generator=generator, dtype=torch.uint8) for s in shapes]
    return {"inputs": [crops.to(device).movedim(-1, 2) for crops in noise]}


def our_loader(folder: str | Path, layout: ViewLayout) -> UnlabeledImages:
    """Return our data set as a pre-training config builds it, in its first epoch."""
    dataset = UnlabeledImages(
        data_root=str(folder), pipeline=[{"type": "PyramidCrop", "layout": layout}]
    )
    dataset.set_epoch(0, seed=0)
    return dataset


@contextmanager
def device_path() -> Iterator[None]:
    """Take the paths of a device, in augmentation and LARC, on the CPU."""
    with (
        mock.patch.object(photometric, "params_are_free", return_value=False),
        mock.patch.object(larc, "_on_cpu", return_value=False),
    ):
        yield
