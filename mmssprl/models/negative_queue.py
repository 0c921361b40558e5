"""Keys of earlier batches, the negatives of MoCo and of the methods that build on it.

Legend: B images per rank, W ranks, N = W B, K length, D embedding size.
"""

import torch
from mmengine import dist
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserValueError
from .feature_queue import push_rows


def join_ranks(tensor: Tensor) -> Tensor:
    """Concatenate tensors (B, ...) of all ranks; no gradient flows.

    A collective: every rank must call it with a tensor of one shape. Returns (N, ...), or the
    tensor itself where there is one process.
    """
    if dist.get_world_size() == 1:
        return tensor
    ranks = dist.all_gather(tensor.contiguous())
    return torch.cat(ranks)


class NegativeQueue(nn.Module):
    """Ring buffer of the newest K keys of all ranks, equal on all of them.

    As published it starts with random unit rows. They are easy to tell from a query: a loss begins
    far below ln(1 + K), rises while keys take their place, and falls only then.

    A checkpoint holds the rows, and the count ``num_pushed`` as the extra state. One of another
    length leaves both as they are.

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
        # Equal on all ranks whatever their seeds: wrappers of models do not share buffers.
        rows = torch.randn(length, in_channels, generator=torch.Generator().manual_seed(0))
        self.register_buffer("keys", F.normalize(rows, dim=1))
        self.num_pushed = 0

    @property
    def fill(self) -> float:
        """Share of the rows that are keys of images."""
        return min(1.0, self.num_pushed / self.length)

    def check(self, num_keys: int, num_images: int) -> None:
        """Raise ValueError unless ``W num_keys < K <= num_images``, keys of a step on this rank.

        A queue that is longer than the data set holds the image that it is a negative of.
        """
        num_keys *= dist.get_world_size()
        if not num_keys < self.length <= num_images:
            raise UserValueError(
                f"queue_length must be above the {num_keys} keys of a step and at most the "
                f"{num_images} images of the data, but got {self.length}; change "
                "model.queue_length, or train_dataloader.batch_size."
            )

    def push(self, keys: Tensor) -> None:
        """Overwrite the oldest N rows by the keys (B, D), unit norm, of all ranks.

        A collective: every rank must call it with equally many keys.
        """
        # (B, D) on each rank -> (N, D)
        joined = join_ranks(keys.to(self.keys.dtype))
        self.num_pushed = push_rows(self.keys, joined, self.num_pushed)

    def get_extra_state(self) -> Tensor:
        """Return (count, K) as a tensor, the only kind that mmengine's checkpoints take."""
        return torch.tensor([self.num_pushed, self.length])

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the count, unless the rows do not fit."""
        num_pushed, length = state.tolist()
        if length == self.length:
            self.num_pushed = num_pushed
