"""Queues of earlier embeddings, for the assignment of small batches and as MoCo's negatives.

Legend: R rows pushed per step, L or K length, D embedding size, B images per rank, W ranks,
N = W B.
"""

import logging
from typing import Any

import torch
from mmengine import dist
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserValueError


@torch.no_grad()
def push_rows(ring: Tensor, rows: Tensor, num_pushed: int) -> int:
    """Overwrite the oldest rows of a ring (..., L, D) with the last L of (..., R, D).

    Row number n is stored in slot n mod L. Returns the number of rows pushed so far, plus R.
    """
    length = ring.shape[-2]
    num_pushed += rows.shape[-2]
    newest = rows[..., -length:, :].to(ring.dtype)
    slots = torch.arange(num_pushed - newest.shape[-2], num_pushed, device=ring.device) % length
    ring.index_copy_(-2, slots, newest)
    return num_pushed


class FeatureQueue(nn.Module):
    """Ring buffer of the newest L embeddings per view of one scale, one buffer per rank.

    The state is the buffer ``features`` and the count ``num_pushed``, saved as the extra state.

    Differs from the released code: each queue counts its own fill, so rows that were never pushed
    cannot enter the assignment. And L >= 1 counts rows per view and rank: 960 and 2,496 on each of
    the 2 GPUs of the released recipe, which counts the rows of all ranks.
    """

    features: Tensor

    def __init__(self, length: int, in_channels: int) -> None:
        super().__init__()
        self.length = length
        self.register_buffer("features", torch.zeros(2, length, in_channels))
        self.num_pushed = 0
        self._features_of_ranks: Tensor | None = None

    @property
    def num_filled(self) -> int:
        """Rows per view that hold embeddings."""
        return min(self.num_pushed, self.length)

    @property
    def is_full(self) -> bool:
        """Whether every row holds an embedding."""
        return self.num_pushed >= self.length

    def push(self, embeddings: Tensor) -> None:
        """Overwrite the oldest rows with the last L of (2, R, D), unit norm."""
        self.num_pushed = push_rows(self.features, embeddings, self.num_pushed)

    def gather_ranks(self) -> None:
        """Collect the rows of all ranks for the next state dict. Collective."""
        if dist.get_world_size() > 1:
            self._features_of_ranks = torch.stack(dist.all_gather(self.features)).cpu()

    def release_ranks(self) -> None:
        """Free the rows that :meth:`gather_ranks` collected."""
        self._features_of_ranks = None

    def get_extra_state(self) -> Tensor:
        """Return the count as a tensor, the only type that mmengine's checkpoints accept."""
        return torch.tensor(self.num_pushed)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the count."""
        self.num_pushed = int(state)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._features_of_ranks is not None:
            destination[prefix + "features_of_ranks"] = self._features_of_ranks

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        ranks = state_dict.pop(prefix + "features_of_ranks", None)
        num_ranks = 1 if ranks is None else len(ranks)
        if ranks is not None and num_ranks == dist.get_world_size():
            state_dict[prefix + "features"] = ranks[dist.get_rank()]

        stored = state_dict.get(prefix + "features", self.features)
        same_length = stored.shape == self.features.shape
        if not same_length:
            # mmengine skips tensors of another shape. That would restore the count, but no rows.
            state_dict[prefix + "features"] = self.features

        super()._load_from_state_dict(state_dict, prefix, *args)
        if self.num_pushed and not (same_length and num_ranks == dist.get_world_size()):
            print_log(
                f"Queue starts empty: in the checkpoint it is {tuple(stored.shape)} on {num_ranks} "
                f"rank(s), in this training {tuple(self.features.shape)} on "
                f"{dist.get_world_size()}.",
                logger="current",
                level=logging.WARNING,
            )
            self.num_pushed = 0


def join_ranks(tensor: Tensor) -> Tensor:
    """Concatenate tensors (B, ...) of one shape to (N, ...), without gradient. Collective."""
    if dist.get_world_size() == 1:
        return tensor
    ranks = dist.all_gather(tensor.contiguous())
    return torch.cat(ranks)


class NegativeQueue(nn.Module):
    """Ring buffer of the newest K keys of all ranks, equal on all of them.

    It starts with random unit rows, as published. These are easy to distinguish from a query, so
    the loss starts far below ln(1 + K), rises while keys replace them, and falls only then.

    A checkpoint stores the rows, and the count ``num_pushed`` as the extra state. Loading one with
    another length K >= 1 changes neither.
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
        """Overwrite the oldest N rows with the keys (B, D), unit norm, of all ranks. Collective."""
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
