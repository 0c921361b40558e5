"""Exact counts of a model: FLOPs, parameters, bytes. Nothing in here is timed."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from mmssprl.timing.saved_bytes import saved_bytes

from .models import build_model, shipped_config

_FLOAT32 = 4  # bytes
_PLAIN_PX = 224


def flops_per_image(cfg: Mapping) -> dict[str, int]:
    """Count forward and backward FLOPs of one image's crops; a multiply-add is two.

    Returns:
        'conv' (the backbone's convolutions; the first has no gradient to its input) and 'heads'
        (matrix products of neck, prototypes and correlation learners).
    """
    model, fake = _fake_model(cfg)
    with fake, FlopCounterMode(display=False) as counter:
        torch.stack(list(_losses(model, 1).values())).sum().backward()
    return _by_part(counter)


@cache
def equivalent_crops(num_crops: int) -> float:
    """How many crops of 224 px cost the backbone as many FLOPs as the crops of one image."""
    model, fake = _fake_model(shipped_config(num_crops))
    with fake, FlopCounterMode(display=False) as counter:
        model.backbone(torch.empty(1, 3, _PLAIN_PX, _PLAIN_PX))[-1].sum().backward()
    return flops_per_image(shipped_config(num_crops))["conv"] / _by_part(counter)["conv"]


def parameter_counts(cfg: Mapping) -> dict[str, int]:
    """Count parameter tensors, parameters, and bytes of their float32 gradients."""
    sizes = [p.numel() for p in build_model(cfg).parameters()]
    return {
        "tensors": len(sizes),
        "parameters": sum(sizes),
        "gradient_bytes": _FLOAT32 * sum(sizes),
    }


def activation_bytes(cfg: Mapping, *, bfloat16: bool = False) -> int:
    """Count the bytes per image that the step keeps for its backward pass.

    What does not grow with the batch, such as the copies of the weights that bfloat16 autocast
    makes, cancels: this is two images' bytes less one's.
    """
    model, fake = _fake_model(cfg)
    with fake, saved_bytes(model) as totals:
        for batch_size in (1, 2):
            _losses(model, batch_size, bfloat16)
    return totals[1] - totals[0]


def _by_part(counter: FlopCounterMode) -> dict[str, int]:
    flops = {str(op): num for op, num in counter.get_flop_counts()["Global"].items()}
    conv = sum(num for op, num in flops.items() if "convolution" in op)
    return {"conv": conv, "heads": sum(flops.values()) - conv}


def _fake_model(cfg: Mapping) -> tuple[Any, FakeTensorMode]:
    """Build a model whose tensors have shapes and no values: operators on them cost nothing."""
    model, fake = build_model(cfg), FakeTensorMode()
    model.head.eval()  # training, it reads the batch sizes of all ranks and fills the queues
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model._apply(fake.from_tensor)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    return model, fake


def _losses(model: Any, batch_size: int, bfloat16: bool = False) -> dict[str, Tensor]:
    inputs = [
        torch.empty(group.num_crops, batch_size, 3, group.px, group.px)
        for group in model.layout.groups
    ]
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        return model(inputs, mode="loss")
