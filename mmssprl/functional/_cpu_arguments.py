"""What the compiled kernels are given, in a module that can be imported without numba.

Legend: N samples, H, W image size, L = H * W pixels, R pixels that a box of the blur reaches to
each side.
"""

from typing import NamedTuple

from numpy import ndarray as Array


class Source(NamedTuple):
    """N samples as they lie in memory.

    Attributes:
        levels: uint8, the memory that holds the samples, or empty.
        values: float32, as ``levels``; one of them is empty, so that both types share one kernel.
        starts: (N,) int64, index of each sample's first value in there.
        strides: Steps in there to the next row, channel and pixel: the pixel's is 1, or it is 3 and
            the channel's is 1.
        size: H and W, at least 1.
    """

    levels: Array
    values: Array
    starts: Array
    strides: tuple[int, int, int]
    size: tuple[int, int]


class Changes(NamedTuple):
    """What is done to each sample, in this order.

    Attributes:
        flip: (N,) bool.
        order: (N, 4) int64, as in ``ColorJitterParams``.
        factors: (N, 4) float32, as ``order``.
        gray: (N,) bool.
        reach: (N,) int64, R of each sample's blur; 0 is no blur.
        row_weights: (N, n, T) float32: the first n pixels of a blurred row are sums of its first T
            pixels; those behind them repeat the last weights, see ``_line_weights``.
        column_weights: As ``row_weights``.
        solarize: (N,) bool.
    """

    flip: Array
    order: Array
    factors: Array
    gray: Array
    reach: Array
    row_weights: Array
    column_weights: Array
    solarize: Array


class Target(NamedTuple):
    """Where the samples go, ``* scale + shift``.

    Attributes:
        values: (N * 3 * L,) float32, written.
        interleaved: Whether it holds (N, H, W, 3) or (N, 3, H, W).
        scale, shift: (3,) float32, per channel.
    """

    values: Array
    interleaved: bool
    scale: Array
    shift: Array
