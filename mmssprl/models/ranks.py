"""What the ranks of a training find out together, in collectives that each of them calls.

Legend: W ranks.
"""

from collections.abc import Sequence

import torch
from mmengine import dist
from torch import Tensor

from ..errors import UserValueError


def check_equal_batches(num_images: int, device: torch.device, owner: str) -> None:
    """Raise ValueError in the name of ``owner`` if ranks have different numbers of images."""
    batches = dist.all_gather(torch.tensor([num_images], device=device))
    sizes = [int(size) for size in batches]
    if len(set(sizes)) > 1:
        raise UserValueError(
            f"{owner}: every rank must have the same batch size, but got {sizes} "
            "images; use mmengine's DefaultSampler and one batch_size for all ranks."
        )


def means_of_masked(values: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
    """Return scalars whose means over the ranks are those of the masked values of all ranks.

    W / N times the sum on this rank, N counted over all ranks in one collective: so that gradients,
    which DDP averages, are those of one process, too. Where nothing counts anywhere it is 0, with
    gradients of 0.

    Args:
        values: Tensors of any shape; gradient flows.
        masks: Of the same shapes, bool.
    """
    counts = torch.stack([mask.sum() for mask in masks])
    dist.all_reduce(counts)
    weights = dist.get_world_size() / counts.clamp(min=1)
    totals = [(each * mask).sum() for each, mask in zip(values, masks, strict=True)]
    return [total * weight for total, weight in zip(totals, weights, strict=True)]
