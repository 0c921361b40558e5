"""BatchNorm in groups, so that batch statistics do not reveal the key of a query.

With BatchNorm a query and its key share the statistics of their batches. A network can learn to
recognise these statistics instead of the image. Two measures prevent it: a batch is normalised in
groups, one or several per process, and the images of each group of queries are distributed over all
groups of keys. Each measure needs the other: a permutation inside one normalised batch changes
nothing, and SyncBN turns all images into one group.

Legend: B images per rank, W ranks, N = W B, G groups per rank, C channels.
"""

import logging

import torch
from mmengine import dist
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import UserValueError
from .protocol import check_divides
from .queues import join_ranks
from .replacement import replace_modules


class GroupedBatchNorm(_BatchNorm):
    """BatchNorm that normalises equal slices of a batch separately, for inputs of any rank.

    Parameters, buffers, their names and evaluation are as in BatchNorm. The running statistics
    follow the mean over the groups of their means and variances.

    BatchNorm's kernel runs once per group, which is twice as fast on a CPU as one call on
    (n, G C, ...). ``num_groups`` is G >= 1; 1 is plain BatchNorm.
    """

    momentum: float
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self, num_features: int, num_groups: int, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        super().__init__(num_features, eps=eps, momentum=momentum)
        self.num_groups = num_groups

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalise (G n, C, ...); the n rows of a group are adjacent."""
        if not self.training or self.num_groups == 1:
            return super().forward(inputs)
        check_divides("bn_groups", self.num_groups, len(inputs))
        self.num_batches_tracked.add_(1)
        tensors = (self.running_mean, self.running_var, self.weight, self.bias)
        outputs = []
        for i, group in enumerate(inputs.chunk(self.num_groups)):
            # Weights such that all groups count equally at the end, and their mean by `momentum`.
            # This needs no tensor of all groups.
            weight = self.momentum / (self.num_groups - self.momentum * (self.num_groups - 1 - i))
            outputs.append(F.batch_norm(group, *tensors, True, weight, self.eps))
        return torch.cat(outputs)

    def _check_input_dim(self, inputs: Tensor) -> None:
        """Accept (N, C) and maps, because this replaces both BatchNorm1d and BatchNorm2d."""


def does_more(norm: nn.Module) -> bool:
    """Whether it is a BatchNorm with a forward of its own, as with an activation."""
    known = (_BatchNorm.forward, nn.SyncBatchNorm.forward, GroupedBatchNorm.forward)
    return isinstance(norm, _BatchNorm) and type(norm).forward not in known


def group_batch_norms(network: nn.Module, num_groups: int) -> nn.Module:
    """Replace every BatchNorm of a network by a grouped one with the same parameters and buffers.

    Returns the network, or the replacement if the network is a BatchNorm. Raises ValueError for a
    BatchNorm that has no running statistics or cumulative ones, or does more than to normalise.
    """
    return replace_modules(
        network,
        lambda part: _grouped(part, num_groups) if isinstance(part, _BatchNorm) else part,
    )


def _grouped(norm: _BatchNorm, num_groups: int) -> GroupedBatchNorm:
    """Return a grouped BatchNorm with the parameters and buffers of another one."""
    if does_more(norm):
        raise UserValueError(
            "GroupedBatchNorm would replace the whole "
            f"{type(norm).__name__}, but its forward is not BatchNorm's. Take "
            "nn.BatchNorm1d, nn.BatchNorm2d or nn.SyncBatchNorm if it only normalises, split "
            "it into one and the rest, or choose a method without bn_groups."
        )
    if norm.momentum is None or not norm.track_running_stats:
        raise UserValueError(
            "GroupedBatchNorm: BatchNorm must have a number as momentum and "
            f"track_running_stats=True, but got {norm}; change the network's norm_cfg."
        )

    grouped = GroupedBatchNorm(norm.num_features, num_groups, norm.eps, norm.momentum)
    grouped.weight = norm.weight
    grouped.bias = norm.bias
    for name, buffer in norm.named_buffers():
        setattr(grouped, name, buffer)
    return grouped


def check_groups(
    network: nn.Module, num_groups: int, batch_size: int, last_batch_size: int | None = None
) -> None:
    """Check that a network with grouped BatchNorms can train with these batch sizes.

    Raises ValueError if the groups do not divide a batch, or if the norms were replaced again. With
    only one group in total the permutation of the keys has no effect; this logs a warning.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    if not all(isinstance(norm, GroupedBatchNorm) for norm in norms):
        raise UserValueError(
            "BatchNorm must normalise each group separately, but sync_bn makes one group of all "
            "processes, which reveals the keys; set sync_bn=None."
        )
    check_divides("bn_groups", num_groups, batch_size, last_batch_size)
    if num_groups * dist.get_world_size() < 2:
        print_log(
            "BatchNorm should see the images of a step in two groups or more, or its statistics "
            f"reveal the keys, but got model.bn_groups={num_groups} in one process; set it to at "
            f"least 2, a divisor of train_dataloader.batch_size={batch_size}.",
            logger="current",
            level=logging.WARNING,
        )


def groups_for(batch_size: int, num_devices: int, group_size: int) -> int:
    """Return groups per device of at least ``group_size`` images, or two in all if possible."""
    # BatchNorm refuses one value per channel, as a group of one image can have.
    counts = [num for num in range(1, batch_size // 2 + 1) if batch_size % num == 0]
    apart = [num for num in counts if num * num_devices >= 2]
    large = [num for num in apart if batch_size // num >= group_size]
    return max(large, default=min(apart, default=1))


def draw_order(step: int, batch_size: int, num_groups: int, device: torch.device) -> Tensor:
    """Draw the permutation of the N images of a step for the keys.

    A query shares batch statistics with the n = B / G images of its group, and its key with the n
    images of another group. Images in both groups reveal the key. So the images of each group of
    queries are shuffled and dealt one by one to all W G groups of keys. Each group gets n / (W G)
    of them, plus at most one, which is the smallest possible overlap.

    The permutation (N,) depends on the step number alone, so it is the same on all ranks and after
    resuming. A ``num_groups`` that does not divide B counts as 1; only networks without BatchNorm
    may have one.
    """
    generator = torch.Generator(device).manual_seed(step)
    num_groups = num_groups if batch_size % num_groups == 0 else 1
    all_groups = num_groups * dist.get_world_size()
    rows = batch_size // num_groups
    group = torch.arange(all_groups, device=device)[:, None]
    row = torch.arange(rows, device=device)
    shuffled = torch.rand(all_groups, rows, generator=generator, device=device).argsort(dim=1)
    # Row j of each group moves by j groups.
    return (group * rows + shuffled)[(group - row) % all_groups, row].flatten()


@torch.no_grad()
def permute_batch(inputs: Tensor, permutation: Tensor) -> Tensor:
    """Move image ``permutation[n]`` of all ranks to position n. Collective."""
    joined = join_ranks(inputs)  # (B, ...) on each rank -> (N, ...)
    return joined[permutation.chunk(dist.get_world_size())[dist.get_rank()]]
