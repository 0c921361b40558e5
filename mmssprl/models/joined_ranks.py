"""Batches of all ranks as one, for what is shared among them.

Legend: B images per rank, W ranks, N = W B.
"""

import torch
from mmengine import dist
from torch import Tensor

from ..functional.phases import COMMUNICATION, phase


def join_ranks(tensor: Tensor, dim: int = 0) -> Tensor:
    """Concatenate the tensors of all ranks, in the order of the ranks; no gradient flows.

    A collective: every rank must call it with a tensor of one shape.

    Args:
        tensor: (..., B, ...).
        dim: That of B.

    Returns:
        (..., N, ...), or the tensor itself where there is one process.
    """
    if dist.get_world_size() == 1:
        return tensor
    with phase(COMMUNICATION):
        ranks = dist.all_gather(tensor.contiguous())
    return torch.cat(ranks, dim=dim)
