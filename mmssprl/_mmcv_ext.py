"""``mmcv._ext`` without a compiler: the operators of mmdet and mmseg, by torchvision.

Imported under that name, see ``_mmcv_operators``. Names and arguments are as in mmcv's C++
functions; on a CPU the results are equal to the last bit. All other operators exist, because mmcv
looks them up when it is imported, and raise an error when called.

Shapes: N boxes, R regions, (B, C, H, W) feature maps, h x w the bins of a region.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from torch import Tensor

# Not relative: this module's package is mmcv.
from mmssprl.errors import UserRuntimeError

_AVERAGE = 1


def nms(boxes: Tensor, scores: Tensor, *, iou_threshold: float, offset: int) -> Tensor:
    """Return the indices of the boxes (N, 4) that non-maximum suppression keeps, best first.

    The scores (N,) may have another dtype, as under autocast. ``offset``, which mmcv adds to widths
    and heights, must be 0 for torchvision.
    """
    if offset != 0:
        _refuse(f"nms with offset={offset}")
    # mmcv orders equal scores by torch's default sort; torchvision's sort is stable.
    order = scores.sort(descending=True)[1]
    ranks = torch.arange(len(order), 0, -1, device=boxes.device, dtype=_computed_in(boxes))
    kept = torch.ops.torchvision.nms(boxes[order].to(ranks), ranks, _float32(iou_threshold))
    return order[kept]


def roi_align_forward(
    input: Tensor, rois: Tensor, output: Tensor, *argmax: Tensor, pool_mode: int, **grid: Any
) -> None:
    """Write the average of each bin of each region of ``input`` (B, C, H, W) to ``output``.

    ``rois`` (R, 5) hold an image index and corners in px, ``output`` is (R, C, h, w). torchvision
    has no maximum, the only use of ``argmax``.
    """
    if pool_mode != _AVERAGE:
        _refuse("roi_align with pool_mode='max'")
    dtype = _computed_in(input)
    bins = (*_size_of(grid), grid["sampling_ratio"], grid["aligned"])
    output.copy_(torch.ops.torchvision.roi_align(input.to(dtype), rois.to(dtype), *bins))


def roi_align_backward(
    grad_output: Tensor, rois: Tensor, *argmax_and_input: Tensor, pool_mode: int, **grid: Any
) -> None:
    """Write the gradient of ``roi_align_forward`` to the last positional argument."""
    dtype = _computed_in(grad_output)
    grad_input = argmax_and_input[-1]
    bins = (*_size_of(grid), *grad_input.shape, grid["sampling_ratio"], grid["aligned"])
    grad = torch.ops.torchvision._roi_align_backward(grad_output.to(dtype), rois.to(dtype), *bins)
    grad_input.copy_(grad)


def _size_of(grid: dict[str, Any]) -> tuple[float, int, int]:
    return _float32(grid["spatial_scale"]), grid["aligned_height"], grid["aligned_width"]


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a placeholder for an operator that only a compiled mmcv has."""
    if name.startswith("_"):  # lookups of Python, such as __path__
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def unavailable(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    return unavailable


def _refuse(operator: str) -> NoReturn:
    raise UserRuntimeError(
        f"mmcv's operator {operator} must be compiled, but this mmcv has no compiled operators and "
        "torchvision replaces only nms and the average of roi_align; install a compiled mmcv "
        "(README.md, Install)."
    )


def _computed_in(tensor: Tensor) -> torch.dtype:
    """Return float32 for half types; torchvision's kernels do not take all of them."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _float32(value: float) -> float:
    """Round to float32: mmcv's C++ functions take floats, torchvision's doubles."""
    return torch.tensor(value, dtype=torch.float32).item()
