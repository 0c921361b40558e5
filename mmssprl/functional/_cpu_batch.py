"""Run the compiled kernels on batches, with as many threads as torch.

Legend: images (*, 3, H, W), N the product of the leading dimensions.
"""

import functools
import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import UserValueError
from ._device import box_radius
from .photometric_params import IDENTITY, ColorJitterParams, PhotometricParams

_PARTS_PER_THREAD = 4  # samples differ in cost, and more parts balance the threads
# Numba raises these if its cache is unreadable or damaged, or the disk is full.
_BAD_CACHE = (OSError, EOFError, pickle.UnpicklingError)
# Numba's caches on disk name the three classes below: with another name they cannot be read.


class Source(NamedTuple):
    """Memory of N samples. ``levels`` or ``values`` is empty, so both types share one kernel."""

    levels: np.ndarray  # uint8 memory of the samples
    values: np.ndarray  # float32 memory of the samples
    starts: np.ndarray  # (N,) int64, index of the first value of each sample
    row: int  # stride from row to row; the values of a row are contiguous, R, G, B
    size: tuple[int, int]  # H and W, at least 1


class Changes(NamedTuple):
    """Operations on each sample, in this order."""

    flip: np.ndarray  # (N,) bool
    order: np.ndarray  # (N, 4) int64, as in ``ColorJitterParams``
    factors: np.ndarray  # (N, 4) float32, as in ``ColorJitterParams``
    gray: np.ndarray  # (N,) bool
    reach: np.ndarray  # (N,) int64, pixels R that the blur's box extends to each side; 0: no blur
    row_weights: np.ndarray  # (N, n, T) float32, see `_line_weights`
    column_weights: np.ndarray  # (N, n, T) float32
    solarize: np.ndarray  # (N,) bool


class Target(NamedTuple):
    """Output of the samples, ``* scale + shift``."""

    values: np.ndarray  # (N, H, W, 3) float32, flat
    scale: np.ndarray  # (3,) float32, per channel
    shift: np.ndarray  # (3,) float32, per channel


def augment(
    images: Tensor,
    params: PhotometricParams,
    scale: Sequence[float],
    shift: Sequence[float],
) -> Tensor:
    """Augment each sample, uint8 or float32 in [0, 1], then apply ``* scale + shift``.

    Returns (*, 3, H, W) float32, in memory (*, H, W, 3). Raises ValueError for a blur not finite.
    """
    *leading, _, height, width = images.shape
    result = torch.empty((*leading, height, width, 3), dtype=torch.float32)
    if result.numel():
        source = _source(images)
        changes = _changes(params, len(source.starts), height, width)
        values = result.view(-1).numpy()
        target = Target(values, np.array(scale, np.float32), np.array(shift, np.float32))
        _run(source, changes, target)
    return result.movedim(-1, -3)


def _source(images: Tensor) -> Source:
    if images.stride()[-3::2] != (1, 3):
        images = images.movedim(-3, -1).contiguous().movedim(-1, -3)
    starts = torch.zeros((), dtype=torch.int64)
    for size, step in zip(images.shape[:-3], images.stride()[:-3], strict=True):
        starts = starts[..., None] + torch.arange(size) * step

    axes = zip(images.shape, images.stride(), strict=True)
    span = 1 + sum((size - 1) * step for size, step in axes)
    memory = images.as_strided((span,), (1,)).numpy()
    as_levels = images.dtype == torch.uint8
    none = np.empty(0, np.float32 if as_levels else np.uint8)
    return Source(
        levels=memory if as_levels else none,
        values=none if as_levels else memory,
        starts=starts.flatten().numpy(),
        row=images.stride()[-2],
        size=(images.shape[-2], images.shape[-1]),
    )


def _changes(params: PhotometricParams, num: int, height: int, width: int) -> Changes:
    flip, jitter, grayscale, blur, solarize = params
    nothing = torch.zeros(num, dtype=torch.bool)
    if jitter is None:
        factors = torch.tensor(IDENTITY).expand(num, 4)
        jitter = ColorJitterParams(torch.arange(4).expand(num, 4), factors)

    def array(values: Tensor, dtype: type) -> np.ndarray:
        # From here on use numpy, because torch's threads hang in a forked child.
        return np.ascontiguousarray(values.cpu().numpy(), dtype)

    sigma = array(torch.zeros(num) if blur is None else blur.sigma, np.float64)
    if not np.isfinite(sigma).all():
        raise UserValueError(f"sigma must be finite, but got {sigma.tolist()}; draw it again.")
    radius = box_radius(sigma)
    reach = np.ceil(radius).astype(np.int64)
    row_weights = _line_weights(width, radius, reach)
    return Changes(
        flip=array(nothing if flip is None else flip, np.bool_),
        order=array(jitter.order, np.int64),
        factors=array(jitter.factors, np.float32),
        gray=array(nothing if grayscale is None else grayscale, np.bool_),
        reach=reach,
        row_weights=row_weights,
        column_weights=row_weights if width == height else _line_weights(height, radius, reach),
        solarize=array(nothing if solarize is None else solarize, np.bool_),
    )


def _line_weights(size: int, radius: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return float32 weights (N, n, T) of a line's first T pixels in its first n blurred ones.

    T = 6 R + 1 and n = 3 R + 1, or both are ``size``, for the reach R. The last row of weights
    applies to all pixels up to the other end of the line, where the weights are mirrored.
    """

    def shape(r: int) -> tuple[int, int]:
        return (size, size) if size <= 6 * r + 1 else (3 * r + 1, 6 * r + 1)

    weights = np.zeros((len(radius), *shape(reach.max())), np.float32)
    for r in range(1, reach.max() + 1):
        blurred = reach == r
        wide = radius[blurred, None]
        num, taps = shape(r)
        line = np.arange(taps)

        box = np.zeros((len(wide), taps, taps))
        for d in range(-r, r + 1):
            weight = np.clip(wide + 1 - abs(d), 0, 1) / (2 * wide + 1)
            box[:, line, np.clip(line + d, 0, taps - 1)] += weight
        weights[blurred, :num, :taps] = (box @ box @ box)[:, :num]
    return weights


def _run(source: Source, changes: Changes, target: Target) -> None:
    num = len(source.starts)
    num_threads = min(torch.get_num_threads(), num)
    if num_threads == 1:
        _call(source, changes, target, 0, num)
        return

    num_parts = min(num, num_threads * _PARTS_PER_THREAD)
    bounds = [num * i // num_parts for i in range(num_parts + 1)]
    parts = zip(bounds, bounds[1:], strict=False)
    pool = _pool(torch.get_num_threads())  # the size must not depend on the number of samples
    jobs = [pool.submit(_call, source, changes, target, *part) for part in parts]
    for job in jobs:
        job.result()


def _call(*arguments: object) -> None:
    # A late import: it takes half a second, and only augmenting needs it.
    from ._cpu_kernels import augment, augment_uncached

    try:
        augment(*arguments)
    except _BAD_CACHE:
        augment_uncached(*arguments)


@functools.lru_cache(maxsize=1)
def _pool(num_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, thread_name_prefix="photometric")


# Threads do not survive a fork, so each worker starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
