"""What the ranks of a training find out together, in collectives that each of them calls."""

import torch
from mmengine import dist

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
