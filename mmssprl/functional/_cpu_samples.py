"""What the compiled kernels are given. Legend: N samples."""

from typing import NamedTuple

import numpy as np


class Source(NamedTuple):
    """Layout of N samples in memory; one of ``levels`` and ``values`` is empty."""

    levels: np.ndarray  # uint8, the memory that holds the samples
    values: np.ndarray  # float32, the same; so that both types share one kernel
    starts: np.ndarray  # (N,) int64, index in there of each sample's first value
    row: int  # from a row to the next, whose pixels lie one after the other, R, G, B
    size: tuple[int, int]  # H and W, at least 1


class Changes(NamedTuple):
    """What is done to each sample, in this order."""

    flip: np.ndarray  # (N,) bool
    order: np.ndarray  # (N, 4) int64, as in ``ColorJitterParams``
    factors: np.ndarray  # (N, 4) float32, as well
    gray: np.ndarray  # (N,) bool
    reach: np.ndarray  # (N,) int64, pixels R that a blur's box reaches to each side; 0: no blur
    row_weights: np.ndarray  # (N, n, T) float32, see `_line_weights`
    column_weights: np.ndarray  # the same
    solarize: np.ndarray  # (N,) bool


class Target(NamedTuple):
    """Where the samples go, ``* scale + shift``."""

    values: np.ndarray  # (N, H, W, 3) float32, flat; written
    scale: np.ndarray  # (3,) float32, per channel
    shift: np.ndarray  # the same
