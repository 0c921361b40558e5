"""Queue of keys from earlier batches, the negatives of MoCo and related methods.

Legend: B images per rank, W ranks, N = W B, K length, D embedding size.
"""

import torch
from mmengine import dist
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserValueError
from .feature_queue import push_rows


def join_ranks(tensor: Tensor) -> Tensor:
    """Concatenate the tensors (B, ...) of all ranks to (N, ...), without gradient.

    Collective: every rank must call it with a tensor of the same shape. A single process gets its
    tensor back.
    """
    if dist.get_world_size() == 1:
        return tensor
    ranks = dist.all_gather(tensor.contiguous())
    return torch.cat(ranks)


class NegativeQueue(nn.Module):
    """Ring buffer of the newest K keys of all ranks, equal on all of them.

    It starts with random unit rows, as published. These are easy to distinguish from a query, so
    the loss starts far below ln(1 + K), rises while keys replace them, and falls only then.

    A checkpoint stores the rows, and the count ``num_pushed`` as the extra state. Loading one with
    another length changes neither.

    Args:
        length: K >= 1.
        in_channels: D, size of the keys.
    """

    keys: Tensor

    def __init__(self, length: int, in_channels: int) -> None:
        super().__init__()
        if length < 1:
            raise UserValueError(f"NegativeQueue: length must be >= 1, but got {length}.")
        self.length = length
        # A fixed seed: ranks have different seeds, and model wrappers do not broadcast buffers.
        rows = torch.randn(length, in_channels, generator=torch.Generator().manual_seed(0))
        self.register_buffer("keys", F.normalize(rows, dim=1))
        self.num_pushed = 0

    @property
    def fill(self) -> float:
        """Share of the rows that hold keys of images."""
        return min(1.0, self.num_pushed / self.length)

    def check(self, num_keys: int, num_images: int) -> None:
        """Raise ValueError unless ``W num_keys < K <= num_images``.

        ``num_keys`` counts the keys per step on this rank. A queue longer than the data set would
        contain keys of the query's own image as negatives.
        """
        num_keys *= dist.get_world_size()
        if not num_keys < self.length <= num_images:
            raise UserValueError(
                f"queue_length must be above the {num_keys} keys of a step and at most the "
                f"{num_images} images of the data, but got {self.length}; change "
                "model.queue_length, or train_dataloader.batch_size."
            )

    def push(self, keys: Tensor) -> None:
        """Overwrite the oldest N rows with the keys (B, D), unit norm, of all ranks.

        Collective: every rank must call it with the same number of keys.
        """
        joined = join_ranks(keys.to(self.keys.dtype))  # (N, D)
        self.num_pushed = push_rows(self.keys, joined, self.num_pushed)

    def get_extra_state(self) -> Tensor:
        """Return (count, K) as a tensor, the only type that mmengine's checkpoints accept."""
        return torch.tensor([self.num_pushed, self.length])

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the count if the length is the same."""
        num_pushed, length = state.tolist()
        if length == self.length:
            self.num_pushed = num_pushed
