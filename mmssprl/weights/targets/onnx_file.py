"""The backbone as an ONNX graph: normalised RGB images in, feature map and pooled features out."""

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from ..._dependencies import is_importable
from ...errors import UserValueError
from .target import Exported, Features, Loaded, last_and_pooled

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_INPUT = "images"
_OUTPUTS = ("feature_map", "pooled")
_EXAMPLE_PX = 224


def write_onnx(source: Exported, path: Path) -> None:
    """Trace the backbone with a free batch size, and a free image size for a ResNet.

    Raises:
        ValueError: A package is not installed, or the exporter cannot express the backbone.
    """
    missing = [name for name in _PACKAGES if not is_importable(name)]
    if missing:
        raise UserValueError(
            f"target onnx must have {', '.join(_PACKAGES)}, but {', '.join(missing)} cannot be "
            f"imported; pip install {' '.join(missing)}"
        )
    axes = {0: torch.export.Dim.DYNAMIC}
    if source.is_resnet:
        axes |= {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, about torch
            torch.onnx.export(
                _Features(source.backbone).eval(),
                (torch.zeros(2, source.in_channels, *image_px(source)),),
                path,
                input_names=[_INPUT],
                output_names=list(_OUTPUTS),
                dynamic_shapes=(axes,),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # of many classes, from several packages
        raise UserValueError(
            f"target onnx must get a backbone that torch.onnx can trace, but it failed on a "
            f"{source.architecture} ({type(error).__name__}); export it to backbone or "
            "safetensors."
        ) from error


def load_onnx(path: Path, source: Exported) -> Loaded:
    """Check the graph and open it in onnxruntime on the CPU."""
    import onnx
    import onnxruntime

    content = path.read_bytes()  # neither takes a name that is no UTF-8
    onnx.checker.check_model(content)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Features:
        try:
            last, pooled = session.run(list(_OUTPUTS), {_INPUT: images.numpy()})
        except Exception as error:  # onnxruntime's own classes derive from nothing narrower
            raise UserValueError(
                f"the graph must run on every batch, but onnxruntime fails on "
                f"{tuple(images.shape)}: a {source.architecture} cannot be traced for free batch "
                "sizes; export it to backbone or safetensors."
            ) from error
        return torch.from_numpy(last), torch.from_numpy(pooled)

    size = "height x width" if source.is_resnet else " x ".join(map(str, image_px(source)))
    note = (
        f"Input '{_INPUT}': float32 RGB (batch, {source.in_channels}, {size}), normalised by the "
        f"mean and std of pre-training; outputs '{_OUTPUTS[0]}' and '{_OUTPUTS[1]}'."
    )
    return Loaded("onnxruntime", run, None, None, (note,))


def image_px(source: Exported) -> tuple[int, int]:
    """Height and width that the backbone was built for; 224 where it does not say."""
    size = getattr(source.backbone, "img_size", (_EXAMPLE_PX, _EXAMPLE_PX))
    return int(size[0]), int(size[1])


class _Features(nn.Module):
    """A backbone whose outputs are the last feature map and the pooled features."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Features:
        return last_and_pooled(self.backbone)(images)
