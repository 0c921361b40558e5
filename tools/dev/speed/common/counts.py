"""Exact counts of FLOPs of a model. Nothing in here is timed."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from .models import build_model, shipped_config

_PLAIN_PX = 224


def flops_per_image(cfg: Mapping) -> int:
    """Count forward and backward FLOPs of the backbone's convolutions for one image's crops.

    A multiply-add is two; the first convolution has no gradient to its input.
    """
    model, fake = _fake_model(cfg)
    with fake, FlopCounterMode(display=False) as counter:
        inputs = [torch.empty(g.num_crops, 1, 3, g.px, g.px) for g in model.layout.groups]
        torch.stack(list(model(inputs, mode="loss").values())).sum().backward()
    return _of_convolutions(counter)


@cache
def equivalent_crops(num_crops: int) -> float:
    """How many crops of 224 px cost the backbone as many FLOPs as the crops of one image."""
    model, fake = _fake_model(shipped_config(num_crops))
    with fake, FlopCounterMode(display=False) as counter:
        model.backbone(torch.empty(1, 3, _PLAIN_PX, _PLAIN_PX))[-1].sum().backward()
    return flops_per_image(shipped_config(num_crops)) / _of_convolutions(counter)


def _of_convolutions(counter: FlopCounterMode) -> int:
    flops = counter.get_flop_counts()["Global"].items()
    return sum(number for operator, number in flops if "convolution" in str(operator))


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
