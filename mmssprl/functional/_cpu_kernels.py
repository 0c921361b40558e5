"""Photometric augmentation of samples on the CPU, compiled by numba.

Legend: H, W image size, L = H * W pixels. A block is a run of whole rows that fits the L1 cache,
and rgb are its three planes, float32. R is the number of pixels that a box of the blur extends to
each side.

`augment` is the only entry point. Everything that it calls is in this file, because numba's disk
cache detects changes only in the file of the entry point. Loops are written for LLVM's vectoriser:
float32 constants (a float literal is float64), unsigned computed indices (signed ones are checked
for counting from the end), ``min`` and ``max`` instead of conditions.
"""

import contextlib
from typing import Any

import numpy as np
from numba import njit
from numpy import ndarray as Array

from .photometric_params import BRIGHTNESS, CONTRAST, GRAY_WEIGHTS, HUE, SATURATION, SOLARIZE_FROM

_BLOCK_PIXELS = 1024  # 12 KiB
_GROUP = 7  # taps added at a time; a blur up to sigma 1.41 has no more
_ZERO, _ONE, _THREE, _LEVEL = np.float32(0), np.float32(1), np.float32(3), np.float32(1 / 255)
_BRIGHT = np.float32(SOLARIZE_FROM)
_RED, _GREEN, _BLUE = (np.float32(weight) for weight in GRAY_WEIGHTS)

_RGB = tuple[Array, Array, Array]
_MATH = {"contract", "nsz", "nnan", "ninf"}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _MATH}
# Inlined: called copies would round differently in the process that compiles the entry point.
_fast: Any = njit(**_OPTIONS, forceinline=True)
_fast_sum: Any = njit(**{**_OPTIONS, "fastmath": _MATH | {"reassoc"}}, forceinline=True)


@_fast
def _load(
    source: Array, start: int, row: int, unit: np.float32, flip: bool, line: Array, rgb: _RGB,
) -> None:  # fmt: skip
    """Fill ``rgb`` with ``source * unit``, mirrored if ``flip``; ``line`` is scratch for a row."""
    width = line.size
    for y in range(rgb[0].size // width):
        here = slice(y * width, (y + 1) * width)
        r, g, b = rgb[0][here], rgb[1][here], rgb[2][here]
        first = start + y * row
        values = source[first : first + 3 * width]
        for x in range(width):
            i = np.uintp(3 * x)
            r[x] = np.float32(values[i]) * unit
            g[x] = np.float32(values[i + np.uintp(1)]) * unit
            b[x] = np.float32(values[i + np.uintp(2)]) * unit
        if flip:
            for plane in (r, g, b):
                for x in range(width):
                    line[x] = plane[x]
                for x in range(width):
                    plane[np.uintp(width - 1 - x)] = line[x]


@_fast
def _load_sample(source: tuple, n: int, y: int, flip: bool, line: Array, rgb: _RGB) -> None:
    """Fill ``rgb`` with the rows of sample ``n`` from ``y`` on, in [0, 1]."""
    levels, values, starts, row, _ = source
    start = starts[n] + y * row
    if levels.size > 0:
        _load(levels, start, row, _LEVEL, flip, line, rgb)
    else:
        _load(values, start, row, _ONE, flip, line, rgb)


@_fast
def _store(rgb: _RGB, scale: Array, shift: Array, out: Array) -> None:
    """Write ``rgb * scale + shift``, pixel by pixel, to ``out``, which starts at the block."""
    r, g, b = rgb
    s0, s1, s2 = scale[0], scale[1], scale[2]
    t0, t1, t2 = shift[0], shift[1], shift[2]
    for x in range(r.size):
        i = np.uintp(3 * x)
        out[i] = r[x] * s0 + t0
        out[i + np.uintp(1)] = g[x] * s1 + t1
        out[i + np.uintp(2)] = b[x] * s2 + t2


@_fast
def _brighten_(rgb: _RGB, factor: np.float32) -> None:
    for plane in rgb:
        for i in range(plane.size):
            plane[i] = min(plane[i] * factor, _ONE)


@_fast
def _contrast(source: Array, here: slice, factor: np.float32, lift: np.float32, rgb: _RGB) -> None:
    for c in range(3):
        plane, out = source[c, here], rgb[c]
        for i in range(out.size):
            out[i] = min(max(plane[i] * factor + lift, _ZERO), _ONE)


@_fast
def _saturate_(rgb: _RGB, factor: np.float32) -> None:
    red, green, blue = rgb
    rest = _ONE - factor
    wr, wg, wb = rest * _RED, rest * _GREEN, rest * _BLUE
    for i in range(red.size):
        r, g, b = red[i], green[i], blue[i]
        gray = wr * r + wg * g + wb * b
        red[i] = min(max(r * factor + gray, _ZERO), _ONE)
        green[i] = min(max(g * factor + gray, _ZERO), _ONE)
        blue[i] = min(max(b * factor + gray, _ZERO), _ONE)


@_fast
def _shift_hue_(rgb: _RGB, turns: float) -> None:
    """Shift the hue with the formula that `_device._hue` explains."""
    red, green, blue = rgb
    o0 = np.float32((6 * turns + 3) % 6 - 3)
    o1 = np.float32((6 * turns + 1) % 6 - 3)
    o2 = np.float32((6 * turns - 1) % 6 - 3)
    for i in range(red.size):
        r, g, b = red[i], green[i], blue[i]
        low, high = min(min(r, g), b), max(max(r, g), b)
        chroma = high - low
        triple, excess = _THREE * chroma, chroma - low
        hue = excess + g + b - r
        hue = hue if g >= b else -hue
        red[i] = min(max(abs(abs(hue + chroma * o0) - triple) - excess, low), high)
        green[i] = min(max(abs(abs(hue + chroma * o1) - triple) - excess, low), high)
        blue[i] = min(max(abs(abs(hue + chroma * o2) - triple) - excess, low), high)


@_fast
def _gray_(rgb: _RGB) -> None:
    r, g, b = rgb
    for i in range(r.size):
        r[i] = g[i] = b[i] = _RED * r[i] + _GREEN * g[i] + _BLUE * b[i]


@_fast
def _solarize_(rgb: _RGB) -> None:
    for plane in rgb:
        for i in range(plane.size):
            plane[i] = plane[i] if plane[i] < _BRIGHT else _ONE - plane[i]


@_fast_sum
def _gray_sum(rgb: _RGB) -> np.float32:
    (r, g, b), total = rgb, _ZERO
    for i in range(r.size):
        total += _RED * r[i] + _GREEN * g[i] + _BLUE * b[i]
    return total


@_fast
def _contrast_step(order: Array, factor: np.float32) -> int:
    """Return the place of contrast among the steps of a sample; 4 if it changes nothing."""
    found = 4
    for k in range(4):
        if order[k] == CONTRAST and factor != _ONE:
            found = k
    return found


@_fast
def _jitter_(rgb: _RGB, order: Array, factors: Array, first: int, last: int) -> None:
    """Apply the steps ``first`` to ``last - 1`` of a sample, except for contrast."""
    for k in range(first, last):
        step = order[k]
        if step == BRIGHTNESS and factors[BRIGHTNESS] != _ONE:
            _brighten_(rgb, factors[BRIGHTNESS])
        elif step == SATURATION and factors[SATURATION] != _ONE:
            _saturate_(rgb, factors[SATURATION])
        elif step == HUE and factors[HUE] != _ZERO:
            _shift_hue_(rgb, np.float64(factors[HUE]))


@_fast
def _weigh(source: Array, start: int, step: int, weights: Array, out: Array) -> None:
    """Set ``out[i]`` to the sum of ``weights[j] * source[start + i + j * step]``."""
    w, at = np.empty(_GROUP, np.float32), np.empty(_GROUP, np.int64)
    last, n = weights.size - 1, out.size
    for j in range(0, weights.size, _GROUP):
        for k in range(_GROUP):
            # The last group may be incomplete. Its missing taps read a valid pixel, times zero.
            w[k] = weights[j + k] if j + k <= last else _ZERO
            at[k] = start + min(j + k, last) * step
        a, b, c = source[at[0] : at[0] + n], source[at[1] : at[1] + n], source[at[2] : at[2] + n]
        d, e, f = source[at[3] : at[3] + n], source[at[4] : at[4] + n], source[at[5] : at[5] + n]
        g = source[at[6] : at[6] + n]
        w0, w1, w2, w3, w4, w5, w6 = w[0], w[1], w[2], w[3], w[4], w[5], w[6]
        for i in range(n):
            total = (out[i] if j > 0 else _ZERO) + w6 * g[i]
            total += (w0 * a[i] + w1 * b[i]) + (w2 * c[i] + w3 * d[i]) + (w4 * e[i] + w5 * f[i])
            out[i] = total


@_fast
def _blur_rows(
    block: Array, pad: int, weights: Array, reach: int, width: int, plane: Array, here: slice
) -> None:
    """Blur the rows of a block into ``plane``. It has ``pad`` extra pixels at both ends."""
    taps = min(width, 6 * reach + 1)
    edge = 3 * reach if taps < width else width
    for c in range(3):
        source, out = block[c], plane[c, here]
        if taps < width:
            # Over the whole block at once. This mixes rows only near their ends, overwritten below.
            _weigh(source, pad - edge, np.int64(1), weights[edge, :taps], out)
        for y in range(0, out.size, width):
            line, target = source[pad + y : pad + y + width], out[y : y + width]
            for x in range(edge):
                total, mirrored = _ZERO, _ZERO
                for j in range(taps):
                    total += weights[x, j] * line[np.uintp(j)]
                    mirrored += weights[x, j] * line[np.uintp(width - 1 - j)]
                target[x] = total
                target[np.uintp(width - 1 - x)] = mirrored


@_fast
def _blur_columns(
    plane: Array, weights: Array, reach: int, first: int, width: int, rgb: _RGB
) -> None:
    """Blur the columns of ``plane`` into ``rgb``, the rows from ``first`` on."""
    height, last = plane.shape[1] // width, first + rgb[0].size // width
    taps = min(height, 6 * reach + 1)
    edge = 3 * reach if taps < height else height
    for c in range(3):
        y = first
        while y < last:
            stop, row, begin, step = y + 1, y, 0, width
            if edge <= y < height - edge:
                stop, row, begin = min(last, height - edge), edge, (y - edge) * width
            elif y >= edge:
                row, begin, step = height - 1 - y, (height - 1) * width, -width
            target = rgb[c][(y - first) * width : (stop - first) * width]
            _weigh(plane[c], begin, step, weights[row, :taps], target)
            y = stop


def _augment(source: tuple, changes: tuple, target: tuple, first: int, last: int) -> None:
    """Augment the samples ``first`` to ``last - 1`` of N, by the tuples from `_cpu_batch`.

    The order is mirror, jitter, gray, blur, solarize, ``* scale + shift``. A step that a sample
    skips costs nothing and changes no bit.
    """
    # Unpacked once, so that the loops below read plain variables.
    height, width = source[4]
    flip, order, factors, gray, reach, row_weights, column_weights, solarize = changes
    out, scale, shift = target
    area, rows = height * width, max(1, _BLOCK_PIXELS // width)
    slack = 3 * reach[first:last].max()
    block = np.zeros((3, slack + rows * width + slack), np.float32)
    # Only for steps that need the whole image. All others work within the block.
    plane, line = np.empty((3, area), np.float32), np.empty(width, np.float32)

    for n in range(first, last):
        contrast, lift, total = factors[n, CONTRAST], _ZERO, 0.0
        contrast_at = _contrast_step(order[n], contrast)
        has_contrast, blurred = contrast_at < 4, reach[n] > 0
        # Stage 0 ends before contrast, which needs the mean of the whole image. Stage 1 ends with
        # the blur of the rows. Stage 2 starts with the blur of the columns, which needs all rows.
        for stage in range(0 if has_contrast else 1, 3 if blurred else 2):
            resume = stage == 1 and has_contrast
            if resume:
                lift = np.float32((1.0 - np.float64(contrast)) * total / area)
            for y in range(0, height, rows):
                begin, end = y * width, min(y + rows, height) * width
                here, there = slice(begin, end), slice(slack, slack + end - begin)
                # Stage 0 stores the whole image, because the mean is known only at its end.
                at, store = (here, plane) if stage == 0 else (there, block)
                rgb = (store[0, at], store[1, at], store[2, at])
                if stage == 2:
                    _blur_columns(plane, column_weights[n], reach[n], y, width, rgb)
                else:
                    if resume:
                        _contrast(plane, here, contrast, lift, rgb)
                    else:
                        _load_sample(source, n, y, flip[n], line, rgb)
                    step, stop = (contrast_at + 1, 4) if resume else (0, contrast_at)
                    _jitter_(rgb, order[n], factors[n], step, stop)
                    if stage == 0:
                        total += np.float64(_gray_sum(rgb))
                        continue
                    if gray[n]:
                        _gray_(rgb)
                    if blurred:
                        _blur_rows(block, slack, row_weights[n], reach[n], width, plane, here)
                        continue
                if solarize[n]:
                    _solarize_(rgb)
                _store(rgb, scale, shift, out[3 * (n * area + begin) :])


augment, augment_uncached = (njit(**_OPTIONS)(_augment) for _ in range(2))
# Fails if the package's folder, the user's cache and NUMBA_CACHE_DIR are all read-only.
with contextlib.suppress(RuntimeError):
    augment.enable_caching()
