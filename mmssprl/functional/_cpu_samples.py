"""Arguments of the compiled kernels. Legend: N samples."""

from typing import NamedTuple

import numpy as np


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
