"""Export backbones to ONNX, and run the graphs in onnxruntime on the CPU."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from .._dependencies import is_importable
from ..errors import UserValueError
from ..functional.pooling import pool

Features = tuple[Tensor, Tensor]
"""The last output (N, C, H, W) or (N, C), and the pooled features (N, C)."""
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_INPUT = "images"


class Pooled(nn.Module):
    """Return the last output of a backbone, and the same pooled as in training."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Features:
        """Take normalised images (N, C, H, W)."""
        outputs = self.backbone(images)
        last = outputs if isinstance(outputs, Tensor) else outputs[-1]
        return last, pool(last)


def write_onnx(
    backbone: nn.Module, images: Tensor, path: Path, *, any_size: bool, about: Mapping[str, str]
) -> None:
    """Export a graph from normalised images (N, C, H, W) to ``Features``.

    The batch size is dynamic, and with ``any_size`` the image size. ``about`` becomes its metadata.
    """
    if not all(map(is_importable, _PACKAGES)):
        raise UserValueError(f"target onnx needs more packages: pip install {' '.join(_PACKAGES)}")
    axes = dict.fromkeys((0, 2, 3) if any_size else (0,), torch.export.Dim.DYNAMIC)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of torch about its own code
            torch.onnx.export(
                Pooled(backbone).eval(),
                (images,),
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
            f"torch.onnx cannot trace a {type(backbone).__name__} ({type(error).__name__}); "
            "export it to pth or safetensors."
        ) from error
    import onnx

    graph = onnx.load_from_string(path.read_bytes())  # it opens no name that is not in UTF-8
    onnx.helper.set_model_props(graph, dict(about))
    path.write_bytes(graph.SerializeToString())


class Graph:
    """Check an ONNX graph and run it in onnxruntime on the CPU."""

    def __init__(self, path: Path) -> None:
        import onnx
        import onnxruntime

        content = path.read_bytes()  # neither package opens a name that is not in UTF-8
        onnx.checker.check_model(content)
        self.session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def __call__(self, images: Tensor) -> Features:
        """Take normalised images (N, C, H, W)."""
        last, pooled = self.session.run(None, {_INPUT: images.numpy()})
        return torch.from_numpy(last), torch.from_numpy(pooled)
