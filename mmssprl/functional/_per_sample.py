"""Apply an in-place operation to the samples of a batch that a mask names.

On the CPU parameters can be read for free, so only samples that change are worked on. Elsewhere
reading one would wait for the device, so all samples are worked on and the mask chooses.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_CHUNK_FLOATS = 262_144  # 1 MiB: enough work per call, and the temporaries stay in the cache


def params_are_free(images: Tensor) -> bool:
    """Whether reading a parameter of ``images`` waits for no device."""
    return images.device.type == "cpu"


def apply_per_sample(
    images: Tensor,
    function_: Callable[..., None],
    mask: Tensor,
    *params: Tensor,
    run: Tensor | None = None,
) -> Tensor:
    """Return a copy of ``images``, changed by ``function_`` where ``mask`` is True.

    Args:
        images: (N, 3, H, W), uint8 or float32.
        function_: Called with (n, 3, H, W) contiguous samples, which it changes in place, and
            their parameters.
        mask: (N,) bool.
        params: (N, ...) each, handed to ``function_``.
        run: (N,) int64 >= 0: samples of different values never share a call. Used only where
            `params_are_free`.

    Returns:
        (N, 3, H, W) of the same type, contiguous.

    Raises:
        ValueError: Images or parameters of another shape.
        TypeError: Images of another type.
    """
    _check(images, mask)
    free = params_are_free(images)
    # A copy to the CPU has to be waited for: its values are read at once.
    run_ = torch.zeros_like(mask, dtype=torch.long) if run is None else run
    mask, run_, *params_ = (
        t.to(images.device, non_blocking=not free) for t in (mask, run_, *params)
    )
    # Autocast would do the matrix products in half precision.
    with torch.autocast(images.device.type, enabled=False):
        if free:
            return _apply_to_runs(images, function_, torch.where(mask, run_, -1), params_)
        changed = images.clone(memory_format=torch.contiguous_format)
        function_(changed, *params_)
        return torch.where(mask[:, None, None, None], changed, images)


def _apply_to_runs(
    images: Tensor, function_: Callable[..., None], run: Tensor, params: Sequence[Tensor]
) -> Tensor:
    # Sorted, the samples of a call lie side by side: two copies of the batch replace a gather and
    # a scatter per call.
    run, sorter = run.sort()
    result, *params = (t.index_select(0, sorter) for t in (images, *params))
    step = max(1, _CHUNK_FLOATS // max(1, images[:1].numel()))
    values, counts = run.unique_consecutive(return_counts=True)
    stop = 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        start, stop = stop, stop + count
        if value < 0:
            continue
        for i in range(start, stop, step):
            chunk = slice(i, min(i + step, stop))
            function_(result[chunk], *(param[chunk] for param in params))
    return result.index_select(0, sorter.argsort())


def in_unit_range(function_: Callable[..., None]) -> Callable[..., None]:
    """Let ``function_``, made for float32 in [0, 1], change uint8 images too, rounding once."""

    def convert_(images: Tensor, *params: Tensor) -> None:
        if images.dtype != torch.uint8:
            function_(images, *params)
            return
        unit = images.float().div_(255)
        function_(unit, *params)
        images.copy_(unit.mul_(255).round_())

    return convert_


def _check(images: Tensor, mask: Tensor) -> None:
    if images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(
            f"images must be a batch (N, 3, H, W), but got {tuple(images.shape)}; "
            "add the batch dimension, or convert to RGB."
        )
    if images.dtype not in (torch.uint8, torch.float32):
        raise TypeError(
            f"images must be uint8 or float32 in [0, 1], but got {images.dtype}; convert them."
        )
    if mask.shape != images.shape[:1]:
        raise ValueError(
            f"there must be one parameter set per sample, {len(images)} here, "
            f"but got {tuple(mask.shape)}; draw them for len(images)."
        )
