"""As many epochs as fit into a time, and what would let more of them fit."""

from collections.abc import Mapping

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..pyramid import ViewLayout
from ..weights.backbone import build_model
from .recipe import Recipe

_WORTH_SAYING = 0.9
"""Share of the operations below which something helps."""


def what_helps(recipe: Recipe, others: Mapping[str, Recipe]) -> str:
    """Say by which options a step takes less time, "" if by none of them.

    Args:
        recipe: The one that too few epochs fit of.
        others: Recipes that differ in an option, by that option.
    """
    now = operations(recipe)
    shares = {option: operations(other) / now for option, other in others.items()}
    helpful = [(option, share) for option, share in shares.items() if share < _WORTH_SAYING]
    no_gpu = "" if recipe.on_gpu else "no GPU was found"
    if not helpful:
        return no_gpu
    told = " or ".join(f"{100 * share:.0f} % with {option}" for option, share in helpful)
    text = f"more epochs fit if the backbone computes less than now: {told}"
    return f"{text}; {no_gpu}" if no_gpu else text


def operations(recipe: Recipe) -> float:
    """Count the operations of the backbone's forward pass over all views of an image."""
    backbone = build_model(recipe.backbone.cfg).to("meta")  # shapes are all that is computed
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        for group in ViewLayout.build(recipe.layout).groups:
            backbone(torch.empty(group.num_crops, 3, group.px, group.px, device="meta"))
    return counter.get_total_flops()
