"""Batch statistics that do not give away which query and which key are one image's.

With BatchNorm a query and its key share the statistics of their batches, and a network can learn to
recognise that signature instead of the image. So a batch is normalised in groups, one or several
per process, and the images of each group of queries are dealt out to all groups of keys. Neither
half is enough: a permutation inside one normalised batch changes nothing, and SyncBN makes one
group of everything.

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
from .negative_queue import join_ranks


class GroupedBatchNorm(_BatchNorm):
    """BatchNorm, for inputs of any rank, that normalises equal slices of a batch separately.

    Parameters, buffers and their names are BatchNorm's, and so is evaluation. The running
    statistics are those of BatchNorm with the mean over the groups of their means and variances.

    The groups go through BatchNorm's kernel one by one, which is twice as fast on a
    CPU as one call on (n, G C, ...).

    Args:
        num_features: C.
        num_groups: G >= 1, the number of slices; 1 is BatchNorm.
        eps: As in BatchNorm; so is ``momentum``, which must be a number.
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
        """Normalise (G n, C, ...), the n rows of a group in one piece.

        Raises:
            ValueError: Rows that are no multiple of G.
        """
        if not self.training or self.num_groups == 1:
            return super().forward(inputs)
        _check_rows(len(inputs), self.num_groups)
        self.num_batches_tracked.add_(1)
        tensors, outputs = (self.running_mean, self.running_var, self.weight, self.bias), []
        for i, group in enumerate(inputs.chunk(self.num_groups)):
            # Each group moves the statistics further, by so much that in the end all weigh alike:
            # their mean moves them by `momentum`, and no tensor of all groups is needed.
            weight = self.momentum / (self.num_groups - self.momentum * (self.num_groups - 1 - i))
            outputs.append(F.batch_norm(group, *tensors, True, weight, self.eps))
        return torch.cat(outputs)

    def _check_input_dim(self, inputs: Tensor) -> None:
        """Accept (N, C) as well as maps: this replaces BatchNorm1d and BatchNorm2d."""


def group_batch_norms(network: nn.Module, num_groups: int) -> nn.Module:
    """Replace every BatchNorm in a network by a grouped one with the same parameters and buffers.

    Returns the network or, if it is a BatchNorm, its replacement. Raises ValueError
    for a BatchNorm without running statistics, or with cumulative ones.
    """
    if isinstance(network, _BatchNorm):
        if network.momentum is None or not network.track_running_stats:
            raise UserValueError(
                "GroupedBatchNorm: BatchNorm must have a number as momentum and "
                f"track_running_stats=True, but got {network}; change the network's norm_cfg."
            )
        grouped = GroupedBatchNorm(network.num_features, num_groups, network.eps, network.momentum)
        grouped.weight, grouped.bias = network.weight, network.bias
        for name, buffer in network.named_buffers():
            setattr(grouped, name, buffer)
        return grouped
    for name, child in network.named_children():
        setattr(network, name, group_batch_norms(child, num_groups))
    return network


def check_groups(
    network: nn.Module, num_groups: int, batch_size: int, last_batch_size: int | None = None
) -> None:
    """Check a network whose BatchNorms were replaced against a training.

    Raises ValueError for images that the groups do not divide, also those of an incomplete last
    step, and for norms that were replaced again. One group in all trains, but leaves the
    permutation of the keys without effect: a warning.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    if not all(isinstance(norm, GroupedBatchNorm) for norm in norms):
        raise UserValueError(
            "BatchNorm must normalise each group on its own, but sync_bn makes one group of all "
            "processes, which gives away the keys; set sync_bn=None."
        )
    _check_rows(batch_size, num_groups)
    if (last_batch_size or 0) % num_groups:
        raise UserValueError(
            f"the last batch of an epoch must be a multiple of the {num_groups} groups of "
            f"BatchNorm, but it has {last_batch_size} of {batch_size} images; set "
            "train_dataloader.drop_last=True."
        )
    if num_groups * dist.get_world_size() < 2:
        print_log(
            "BatchNorm should see the images of a step in two groups or more, or its statistics "
            f"give away the keys, but got model.bn_groups={num_groups} in one process; set "
            "model.bn_groups to at least 2, a divisor of the batch, which should be even "
            f"(train_dataloader.batch_size={batch_size}).",
            logger="current",
            level=logging.WARNING,
        )


def _check_rows(rows: int, num_groups: int) -> None:
    if rows % num_groups:
        raise UserValueError(
            f"the images of a batch must be a multiple of the {num_groups} groups of BatchNorm, "
            f"but got {rows}; change model.bn_groups or train_dataloader.batch_size."
        )


def draw_order(step: int, batch_size: int, num_groups: int, device: torch.device) -> Tensor:
    """Draw the permutation of the N images of a step for the keys.

    The statistics of a query are those of the n = B / G images of its group, those of its key of
    the n images that it is dealt to. What both have in common gives the key away. So the images of
    each group of queries are shuffled and dealt one by one to all W G groups of keys, n / (W G) to
    each, up to one: the fewest that a query's group and its key's can share.

    The permutation (N,) follows from the step's number alone, so it is equal on all ranks and after
    a resumption. A ``num_groups`` that does not divide B, which only networks without BatchNorm may
    have, counts as 1.
    """
    generator = torch.Generator(device).manual_seed(step)
    num_groups = num_groups if batch_size % num_groups == 0 else 1
    all_groups, rows = num_groups * dist.get_world_size(), batch_size // num_groups
    group = torch.arange(all_groups, device=device)[:, None]
    row = torch.arange(rows, device=device)
    shuffled = torch.rand(all_groups, rows, generator=generator, device=device).argsort(dim=1)
    # Row j of each group moves by j groups.
    return (group * rows + shuffled)[(group - row) % all_groups, row].flatten()


@torch.no_grad()
def permute_batch(inputs: Tensor, permutation: Tensor) -> Tensor:
    """Permute the images of all ranks; ``permutation.argsort()`` undoes it.

    A collective: every rank must call it with inputs (B, ...) of one shape, and one permutation of
    the N images. Image n of all ranks becomes the former ``permutation[n]``.
    """
    joined = join_ranks(inputs)  # (B, ...) on each rank -> (N, ...)
    return joined[permutation.chunk(dist.get_world_size())[dist.get_rank()]]
