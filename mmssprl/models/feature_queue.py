"""Queue of earlier embeddings, which join the assignment of a small batch.

Legend: R rows pushed per step, L length, D embedding size, W ranks.
"""

import logging
from typing import Any

import torch
from mmengine import dist
from mmengine.logging import print_log
from torch import Tensor, nn


@torch.no_grad()
def push_rows(ring: Tensor, rows: Tensor, num_pushed: int) -> int:
    """Overwrite the oldest rows of a ring (..., L, D) with the last L of (..., R, D).

    Row number n is stored in slot n mod L. Returns the number of rows pushed so far, plus R.
    """
    num_pushed, length = num_pushed + rows.shape[-2], ring.shape[-2]
    newest = rows[..., -length:, :].to(ring.dtype)
    slots = torch.arange(num_pushed - newest.shape[-2], num_pushed, device=ring.device) % length
    ring.index_copy_(-2, slots, newest)
    return num_pushed


class FeatureQueue(nn.Module):
    """Ring buffer of the newest L embeddings per view of one scale, one buffer per rank.

    A step may push any number of rows, and the ring may wrap in the middle of a step. The state is
    the buffer ``features`` and the count ``num_pushed``, which is saved as the extra state.

    Differs from the released code: each queue counts its own fill, so rows that were never pushed
    cannot enter the assignment.

    Args:
        length: L >= 1, rows per view and rank. The released recipe counts the rows of all ranks:
            1,920 for images and 4,992 for patches, which is 960 and 2,496 on each of its 2 GPUs.
        in_channels: D, size of the embeddings.
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

    def _empty(self, reason: str) -> None:
        print_log(
            f"Queue starts empty: {reason} since the checkpoint was written.",
            logger="current",
            level=logging.WARNING,
        )
        self.num_pushed = 0

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
        if self.num_pushed and not same_length:
            self._empty(f"the length has changed from {stored.shape[1]} to {self.length}")
        if self.num_pushed and num_ranks != dist.get_world_size():
            self._empty(f"the number of ranks has changed from {num_ranks}")
