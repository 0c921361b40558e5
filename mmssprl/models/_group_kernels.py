"""Normalise the groups of a batch on the CPU in one operation, compiled by numba.

BatchNorm's own kernel, called for one group after the other, takes a fifth of the step of a small
network, and so does each other form that torch offers: its calls, and copies that put groups
together. Here a group is a matrix in place.

Legend: G groups, R rows of a group (its images x positions), C channels. Sums run over blocks of
rows in float32 and over the blocks in float64.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy import ndarray as Array
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK_ROWS = 256
_ZERO = np.float32(0)
_compiled: Any = njit(
    nogil=True, error_model="numpy", fastmath={"contract", "nsz", "nnan", "ninf", "reassoc"}
)


@_compiled
def _forward(
    x: Array, weight: Array, bias: Array, eps: float, out: Array, mean: Array, inv_std: Array
) -> None:
    """Fill ``out`` (G, R, C) with (x - mean) inv_std weight + bias, the statistics with (G, C)."""
    num_groups, num_rows, channels = x.shape
    part, shift = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for g in range(num_groups):
        m = mean[g]
        m[:] = _ZERO
        for centred in (False, True):
            total = np.zeros(channels, np.float64)
            for begin in range(0, num_rows, _BLOCK_ROWS):
                part[:] = _ZERO
                for r in range(begin, min(num_rows, begin + _BLOCK_ROWS)):
                    row = x[g, r]
                    for c in range(channels):
                        d = row[c] - m[c]
                        part[c] += d * d if centred else d
                for c in range(channels):
                    total[c] += part[c]
            if not centred:
                for c in range(channels):
                    m[c] = total[c] / num_rows
        for c in range(channels):
            inv_std[g, c] = 1 / np.sqrt(total[c] / num_rows + eps)
            part[c] = weight[c] * inv_std[g, c]
            shift[c] = bias[c] - m[c] * part[c]
        for r in range(num_rows):
            row, to = x[g, r], out[g, r]
            for c in range(channels):
                to[c] = row[c] * part[c] + shift[c]


@_compiled
def _backward(
    grad: Array, x: Array, weight: Array, mean: Array, inv_std: Array,
    x_grad: Array, weight_grad: Array, bias_grad: Array,
) -> None:  # fmt: skip
    """Fill the gradients: of x (G, R, C), of weight and bias for each group (G, C)."""
    num_groups, num_rows, channels = x.shape
    a, b = np.empty(channels, np.float32), np.empty(channels, np.float32)
    k = np.empty(channels, np.float32)
    for g in range(num_groups):
        m = mean[g]
        sums, products = np.zeros(channels, np.float64), np.zeros(channels, np.float64)
        for begin in range(0, num_rows, _BLOCK_ROWS):
            a[:] = _ZERO
            b[:] = _ZERO
            for r in range(begin, min(num_rows, begin + _BLOCK_ROWS)):
                row, dy = x[g, r], grad[g, r]
                for c in range(channels):
                    a[c] += dy[c]
                    b[c] += dy[c] * (row[c] - m[c])
            for c in range(channels):
                sums[c] += a[c]
                products[c] += b[c]
        for c in range(channels):
            # dx = w s (dy - mean(dy) - (x - m) s^2 mean(dy (x - m))), s being 1 / std
            s = np.float64(inv_std[g, c])
            bias_grad[g, c], weight_grad[g, c] = sums[c], products[c] * s
            slope = -weight[c] * s * s * s * products[c] / num_rows
            a[c], b[c] = weight[c] * s, slope
            k[c] = -weight[c] * s * sums[c] / num_rows - slope * m[c]
        for r in range(num_rows):
            row, dy, to = x[g, r], grad[g, r], x_grad[g, r]
            for c in range(channels):
                to[c] = dy[c] * a[c] + row[c] * b[c] + k[c]


class NormalizeGroups(torch.autograd.Function):
    """Give the normalised batch, and mean and 1 / std (G, C) of its groups without gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take what ``fits`` says, weight and bias (C)."""
        out = torch.empty_like(x)
        mean, inv_std = (x.new_empty(num_groups, x.shape[1]) for _ in range(2))
        arrays = [t.detach().numpy() for t in (weight, bias)]
        statistics = mean.numpy(), inv_std.numpy()
        _forward(_rows(x, num_groups), *arrays, eps, _rows(out, num_groups), *statistics)
        ctx.save_for_backward(x, weight, mean, inv_std)
        ctx.mark_non_differentiable(mean, inv_std)
        return out, mean, inv_std

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, weight and bias."""
        x, weight, mean, inv_std = ctx.saved_tensors
        x_grad, num_groups = torch.empty_like(x), len(mean)
        sums = torch.empty_like(mean), torch.empty_like(mean)
        like_x = torch.empty_like(x).copy_(grad) if grad.stride() != x.stride() else grad
        inputs = [_rows(like_x, num_groups), _rows(x, num_groups)]
        arrays = [t.detach().numpy() for t in (weight, mean, inv_std)]
        _backward(*inputs, *arrays, _rows(x_grad, num_groups), *(s.numpy() for s in sums))
        return x_grad, sums[0].sum(0), sums[1].sum(0), None, None


def fits(x: Tensor, num_groups: int) -> bool:
    """Whether ``NormalizeGroups`` takes a batch, and torch's own threads would not be faster.

    It takes float32 on the CPU, (N, C) or (N, C, H, W) with the channels last in memory, of two
    rows or more.
    """
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return False
    if x.numel() < 2 * num_groups * x.shape[1]:
        return False  # torch refuses it
    if x.dim() == 4:
        is_in_place = x.is_contiguous(memory_format=torch.channels_last)
    else:
        is_in_place = x.dim() == 2 and x.is_contiguous()
    return is_in_place and torch.get_num_threads() <= num_groups


def _rows(x: Tensor, num_groups: int) -> Array:
    """Return (N, C) or (N, C, H, W) as (G, R, C) in the same memory."""
    last = x.detach().movedim(1, -1)
    return last.view(num_groups, -1, x.shape[1]).numpy()
