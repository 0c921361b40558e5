"""Export backbones to ONNX, and run the graphs in onnxruntime on the CPU."""

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from mmengine.config import Config
from mmpretrain.models import ResNet
from torch import Tensor, nn

from .._dependencies import is_importable
from ..errors import UserValueError
from ..pixels import Normalisation
from .pooled import Features, Pooled, random_images
from .targets import earlier_targets

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_INPUT = "images"


def write_onnx(backbone: nn.Module, cfg: Config, path: Path) -> None:
    """Write a graph from normalised images (N, C, H, W) to ``Features``.

    The batch size is dynamic, and of a ResNet the image size. Mean and deviation of the images
    become metadata.
    """
    if not all(map(is_importable, _PACKAGES)):
        raise UserValueError(f"target onnx needs more packages: pip install {' '.join(_PACKAGES)}")

    images = next(random_images(backbone, cfg))
    dynamic = (0, 2, 3) if isinstance(backbone, ResNet) else (0,)
    axes = dict.fromkeys(dynamic, torch.export.Dim.DYNAMIC)
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
            f"export it to {earlier_targets('onnx')}."
        ) from error
    _add_numbers(path, Normalisation.of_config(cfg))


def _add_numbers(path: Path, own: Normalisation) -> None:
    """Write mean and deviation of the images into the metadata of a graph."""
    import onnx

    graph = onnx.load_from_string(path.read_bytes())  # it opens no name that is not in UTF-8
    numbers = own.numbers
    about = {key: str(numbers[key]) for key in ("mean", "std")}
    onnx.helper.set_model_props(graph, about)
    path.write_bytes(graph.SerializeToString())


def read_onnx(path: Path, cfg: Config) -> Callable[[Tensor], Features]:
    """Check a graph, and return a function that runs it in onnxruntime on the CPU."""
    import onnx
    import onnxruntime

    content = path.read_bytes()  # neither package opens a name that is not in UTF-8
    onnx.checker.check_model(content)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Features:
        last, pooled = session.run(None, {_INPUT: images.numpy()})
        return torch.from_numpy(last), torch.from_numpy(pooled)

    return run
