"""The formats of an export, one per package that reads them."""

from functools import partial

from ...models import TimmBackbone
from ..key_tables import to_detectron2
from .models import (
    load_detectron2,
    load_openmmlab,
    load_own,
    load_timm,
    load_torchvision,
    load_whole,
    write_detectron2,
    write_state,
)
from .onnx import load_classifier, load_onnx, run_classifier, write_classifier, write_onnx
from .target import ExportTarget

_PTH = (".pth", ".pt")
_SAFETENSORS = (".safetensors",)
_ONNX_TOLERANCE = 1e-4  # onnxruntime fuses BatchNorm into the convolutions, in float32

_PLAIN = {"deep_stem": False}
"""ResNets whose tensors are named alike in mmpretrain, mmdet and mmseg."""
_STRAIGHT = {
    **_PLAIN,
    "avg_down": False,
    "in_channels": 3,
    "style": "pytorch",
    "dilations": (1, 1, 1, 1),
    "strides": (1, 2, 2, 2),
    "norm": "BatchNorm with eps=1e-05",
}
"""What detectron2 builds, at any width; up to four stages."""
_STANDARD = {"stem_channels": 64, "base_channels": 64, "num_stages": 4, **_STRAIGHT}
"""What torchvision and timm build."""

_ALL = (
    ExportTarget("backbone", _PTH, write_state, load_own),
    ExportTarget("torchvision", _PTH, write_state, load_torchvision, _STANDARD),
    ExportTarget(
        *("timm", _SAFETENSORS + _PTH, write_state, load_timm, _STANDARD), own=(TimmBackbone,)
    ),
    ExportTarget("mmdet", _PTH, write_state, partial(load_openmmlab, package="mmdet"), _PLAIN),
    ExportTarget("mmseg", _PTH, write_state, partial(load_openmmlab, package="mmseg"), _PLAIN),
    ExportTarget(
        *("detectron2", (".pkl",), write_detectron2, load_detectron2, _STRAIGHT),
        rename=to_detectron2,
    ),
    ExportTarget("safetensors", _SAFETENSORS, write_state, load_own),
    ExportTarget("onnx", (".onnx",), write_onnx, load_onnx, tolerance=_ONNX_TOLERANCE),
)
TARGETS = {target.name: target for target in _ALL}
"""The backbone alone, by the name that users type."""

WHOLE_TARGETS = {
    name: ExportTarget(name, TARGETS[name].suffixes, write_state, load_whole)
    for name in ("backbone", "safetensors")
}
WHOLE_TARGETS["onnx"] = ExportTarget(
    *("onnx", (".onnx",), write_classifier, load_classifier),
    tolerance=_ONNX_TOLERANCE,
    outputs=("scores differ", "pooled features differ"),
    ours=run_classifier,
)
"""The whole model: heads, prototypes and queues too; as a graph, a classifier of `finetune`."""

__all__ = ["TARGETS", "WHOLE_TARGETS"]
