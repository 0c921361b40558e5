"""Embeddings of earlier steps that join the assignment of a small batch.

Legend: R rows pushed per step, L length, D embedding size, W ranks.
"""

import logging
from typing import Any

import torch
from mmengine import dist
from mmengine.logging import print_log
from torch import Tensor, nn

from ..errors import UserValueError


class FeatureQueue(nn.Module):
    """Ring buffer of the two views' embeddings of one scale, kept per rank.

    Only the first ``capacity`` rows are used: ``length`` rounded down to a multiple of what one
    step pushes, known from the first push on. All state lies in the buffers ``features``
    and ``counters`` (rows pushed so far, capacity); the counters have copies in Python, so that
    a training step never waits for the device.

    Differs from the released code: each queue counts its own fill, so that rows that were never
    pushed cannot enter the assignment.

    Args:
        length: Rows per view, at least what one step pushes.
        in_channels: D, size of the embeddings.
    """

    features: Tensor
    counters: Tensor

    def __init__(self, length: int, in_channels: int) -> None:
        super().__init__()
        if length < 1:
            raise UserValueError(
                f"FeatureQueue: length must be >= 1, but got {length}; use no queue."
            )
        self.length = length
        self.register_buffer("features", torch.zeros(2, length, in_channels))
        self.register_buffer("counters", torch.zeros(2, dtype=torch.long))
        self._num_pushed = 0
        self._capacity = 0
        self._rows: int | None = None
        self._features_of_ranks: Tensor | None = None

    @property
    def capacity(self) -> int:
        """Rows per view in use; 0 before the first push."""
        return self._capacity

    @property
    def num_filled(self) -> int:
        """Rows per view that hold embeddings."""
        return min(self._num_pushed, self._capacity)

    @property
    def is_full(self) -> bool:
        """Whether every row in use holds an embedding."""
        return 0 < self._capacity <= self._num_pushed

    def rows(self) -> Tensor:
        """The rows in use (2, capacity, D); meaningful once the queue is full."""
        return self.features[:, : self._capacity]

    @torch.no_grad()
    def push(self, embeddings: Tensor) -> None:
        """Overwrite the oldest rows.

        Args:
            embeddings: (2, R, D), unit norm; R is the same at every step.

        Raises:
            ValueError: R above the queue's length, or different from the last step's.
        """
        rows = embeddings.shape[1]
        if rows != self._rows:
            self._set_rows(rows)
        start = self._num_pushed % self._capacity
        self.features[:, start : start + rows].copy_(embeddings)
        self._num_pushed += rows
        self.counters[0] += rows

    def _set_rows(self, rows: int) -> None:
        if self._rows is not None:
            raise UserValueError(
                f"FeatureQueue: each step must push {self._rows} rows, but got {rows}; "
                "set drop_last=True in train_dataloader."
            )
        capacity = self.length // rows * rows
        if capacity == 0:
            raise UserValueError(
                f"FeatureQueue: length must be at least the {rows} rows that one step pushes "
                f"(patches x images per rank), but got {self.length}; raise it, or set 0."
            )
        if capacity != self.length:
            print_log(
                f"Queue of {self.length} rows per view rounded down to {capacity}, a multiple of "
                f"the {rows} rows that one step pushes.",
                logger="current",
            )
        if self._num_pushed and (capacity != self._capacity or self._num_pushed % rows):
            self._empty("the batch size has changed")
        self._rows = rows
        self._capacity = capacity
        self.counters[1] = capacity

    def _empty(self, reason: str) -> None:
        print_log(
            f"Queue starts empty: {reason} since the checkpoint was written.",
            logger="current",
            level=logging.WARNING,
        )
        self._num_pushed = 0
        self.counters[0] = 0

    def gather_ranks(self) -> None:
        """Collect the rows of all ranks, so that the next state dict of any rank holds them.

        A collective: every rank must call it. :meth:`release_ranks` frees the memory.
        """
        if dist.get_world_size() > 1:
            self._features_of_ranks = torch.stack(dist.all_gather(self.features)).cpu()

    def release_ranks(self) -> None:
        """Forget what :meth:`gather_ranks` collected."""
        self._features_of_ranks = None

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
            # mmengine skips what does not fit: the rows would be zeros, the counters not.
            state_dict[prefix + "features"] = self.features
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._num_pushed, self._capacity = self.counters.tolist()
        self._rows = None
        if self._num_pushed and not same_length:
            self._empty(f"the length has changed from {stored.shape[1]} to {self.length}")
        if self._num_pushed and num_ranks != dist.get_world_size():
            self._empty(f"the number of ranks has changed from {num_ranks}")
