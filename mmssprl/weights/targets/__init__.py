"""The formats of an export, one per package that reads them."""

from .architecture import PLAIN, STANDARD, STRAIGHT, accept_any, accept_resnet, is_resnet
from .detectron2_file import load_detectron2, to_detectron2, write_detectron2
from .libraries import CLASSIFIER, load_mmdet, load_mmseg, load_timm, load_torchvision
from .onnx_file import check_onnx, image_px, load_onnx, write_onnx
from .plain import load_own, load_whole, write_state
from .target import Features, Loaded, Source, Target, last_and_pooled

_PTH = (".pth", ".pt")
_TIMM = (".safetensors", *_PTH)
_ONNX_TOLERANCE = 1e-4
"""onnxruntime fuses BatchNorm into the convolutions, in float32."""

_ALL = (
    Target("backbone", _PTH, accept_any, write_state, load_own),
    Target(
        "torchvision",
        _PTH,
        accept_resnet("torchvision", STANDARD),
        write_state,
        load_torchvision,
        own_keys=CLASSIFIER,
    ),
    Target("timm", _TIMM, accept_resnet("timm", STANDARD), write_state, load_timm),
    Target("mmdet", _PTH, accept_resnet("mmdet", PLAIN), write_state, load_mmdet),
    Target("mmseg", _PTH, accept_resnet("mmseg", PLAIN), write_state, load_mmseg),
    Target(
        "detectron2",
        (".pkl",),
        accept_resnet("detectron2", STRAIGHT),
        write_detectron2,
        load_detectron2,
        rename=to_detectron2,
    ),
    Target("safetensors", (".safetensors",), accept_any, write_state, load_own),
    Target("onnx", (".onnx",), check_onnx, write_onnx, load_onnx, tolerance=_ONNX_TOLERANCE),
)
TARGETS = {target.name: target for target in _ALL}
"""The backbone alone, by the name that users type."""

WHOLE_TARGETS = {
    name: Target(name, TARGETS[name].suffixes, accept_any, TARGETS[name].write, load_whole)
    for name in ("backbone", "safetensors")
}
"""The whole model: heads, prototypes and queues too."""

__all__ = [
    "TARGETS",
    "WHOLE_TARGETS",
    "Features",
    "Loaded",
    "Source",
    "Target",
    "image_px",
    "is_resnet",
    "last_and_pooled",
    "to_detectron2",
]
