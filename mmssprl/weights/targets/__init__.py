"""The formats of an export, one per package that reads them."""

from ...models import TimmBackbone
from .architecture import PLAIN, STANDARD, STRAIGHT
from .detectron2_file import load_detectron2, to_detectron2, write_detectron2
from .libraries import CLASSIFIER, load_mmdet, load_mmseg, load_timm, load_torchvision
from .onnx_file import check_onnx, load_onnx, write_onnx
from .plain import load_own, load_whole, write_state
from .target import Target

_PTH = (".pth", ".pt")
_SAFETENSORS = (".safetensors",)
_ONNX_TOLERANCE = 1e-4
"""onnxruntime fuses BatchNorm into the convolutions, in float32."""

_ALL = (
    Target("backbone", _PTH, write_state, load_own),
    Target("torchvision", _PTH, write_state, load_torchvision, STANDARD, own_keys=CLASSIFIER),
    Target("timm", _SAFETENSORS + _PTH, write_state, load_timm, STANDARD, own=(TimmBackbone,)),
    Target("mmdet", _PTH, write_state, load_mmdet, PLAIN),
    Target("mmseg", _PTH, write_state, load_mmseg, PLAIN),
    Target(
        "detectron2", (".pkl",), write_detectron2, load_detectron2, STRAIGHT, rename=to_detectron2
    ),
    Target("safetensors", _SAFETENSORS, write_state, load_own),
    Target("onnx", (".onnx",), write_onnx, load_onnx, check=check_onnx, tolerance=_ONNX_TOLERANCE),
)
TARGETS = {target.name: target for target in _ALL}
"""The backbone alone, by the name that users type."""

WHOLE_TARGETS = {
    name: Target(name, TARGETS[name].suffixes, write_state, load_whole)
    for name in ("backbone", "safetensors")
}
"""The whole model: heads, prototypes and queues too."""

__all__ = ["TARGETS", "WHOLE_TARGETS"]
