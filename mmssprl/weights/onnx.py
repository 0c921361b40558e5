"""Backbones as ONNX graphs, proved in onnxruntime on the CPU."""

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from .._dependencies import is_importable
from ..errors import UserValueError
from .targets import Exported, Features, Loaded, last_and_pooled

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_INPUT = "images"


class _Graph(nn.Module):
    """A backbone that gives its last and its pooled output."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Features:
        return last_and_pooled(self.backbone)(images)


def write_onnx(source: Exported, path: Path) -> None:
    """Trace the backbone: normalised images in, feature map and pooled features out.

    The batch size is free, and for a ResNet the image size.
    """
    if not all(map(is_importable, _PACKAGES)):
        raise UserValueError(
            f"target onnx needs packages that are not installed; pip install {' '.join(_PACKAGES)}"
        )
    axes = {0: torch.export.Dim.DYNAMIC}
    if source.is_resnet:
        axes |= {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, about torch
            torch.onnx.export(
                _Graph(source.backbone).eval(),
                (torch.zeros(2, source.in_channels, *source.image_px),),
                path,
                input_names=[_INPUT],
                output_names=["feature_map", "pooled"],
                dynamic_shapes=(axes,),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # of many classes, from several packages
        raise UserValueError(
            f"target onnx must get a backbone that torch.onnx can trace, but it failed on a "
            f"{source.architecture} ({type(error).__name__}); export it to pth or safetensors."
        ) from error


def load_onnx(path: Path, source: Exported) -> Loaded:
    """Check the graph and open it in onnxruntime on the CPU."""
    kind = "RGB " * (source.in_channels == 3)
    size = "height x width" if source.is_resnet else " x ".join(map(str, source.image_px))
    note = (
        f"Input '{_INPUT}': float32 {kind}(batch, {source.in_channels}, {size}), normalised by "
        "the mean and std of pre-training; outputs 'feature_map' and 'pooled'."
    )
    return Loaded("onnxruntime", _session(path, source), note=note)


def _session(path: Path, source: Exported) -> Callable[[Tensor], Features]:
    import onnx
    import onnxruntime

    content = path.read_bytes()  # neither takes a name that is no UTF-8
    onnx.checker.check_model(content)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Features:
        try:
            last, pooled = session.run(None, {_INPUT: images.numpy()})
        except Exception as error:  # of onnxruntime's own classes
            raise UserValueError(
                "the graph must take any batch, but onnxruntime fails on images of shape "
                f"{tuple(images.shape)}: a {source.architecture} cannot be traced for free batch "
                "sizes; export it to pth or safetensors."
            ) from error
        return torch.from_numpy(last), torch.from_numpy(pooled)

    return run
