"""Export backbones to ONNX, and run the graphs in onnxruntime on the CPU."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from torch import Tensor, nn

from .._dependencies import is_importable
from ..errors import UserValueError
from ..pixels import Normalisation
from .pooled import (
    Features,
    Pooled,
    images_of_other_sizes,
    largest_difference,
    random_images,
)
from .targets import TARGETS, earlier_targets

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_INPUT = "images"


def write_onnx(backbone: nn.Module, cfg: Config, path: Path) -> None:
    """Write a graph from normalised images (N, C, H, W) to ``Features``.

    The batch size is dynamic, and the image size if the network takes several and the graph gives
    its features for them. Mean, deviation, pixels and size of the images become
    metadata.
    """
    if not all(map(is_importable, _PACKAGES)):
        raise UserValueError(f"target onnx needs more packages: pip install {' '.join(_PACKAGES)}")

    images = next(random_images(backbone, cfg))
    height, width = images.shape[2:]
    size = "any"
    if not _writes_any_size(backbone, cfg, images, path):
        size = f"{height} x {width}"
        try:
            _trace(backbone, images, path, (0,))
        except Exception as error:  # of many classes, from several packages
            raise UserValueError(
                f"torch.onnx cannot trace a {type(backbone).__name__} ({type(error).__name__}); "
                f"export it to {earlier_targets('onnx')}."
            ) from error

    own = Normalisation.of_config(cfg)
    _add_metadata(path, {**own.numbers, "pixels": own.pixels or "8-bit RGB", "size": size})
    taken = "any size" if size == "any" else f"{size} px only"
    print_log(f"{path.name}: a graph for images of {taken}")


def _writes_any_size(backbone: nn.Module, cfg: Config, images: Tensor, path: Path) -> bool:
    """Try to write a graph for images of any size, and compare it with the network."""
    others = images_of_other_sizes(backbone, images.shape[1])
    if not others:
        return False
    try:
        _trace(backbone, images, path, (0, 2, 3))
        # Tracing drops what the network does at some sizes only, such as padding.
        difference = largest_difference(read_onnx(path, cfg), backbone, [images, *others])
    except Exception:  # of many classes; the graph of one size reports what is no matter of size
        return False
    return difference <= TARGETS["onnx"].tolerance


def _trace(backbone: nn.Module, images: Tensor, path: Path, dynamic: Sequence[int]) -> None:
    """Write the graph of a backbone, with these dimensions of the images dynamic."""
    axes = dict.fromkeys(dynamic, torch.export.Dim.DYNAMIC)
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


def _add_metadata(path: Path, about: Mapping[str, Any]) -> None:
    """Write values into the metadata of a graph."""
    import onnx

    graph = onnx.load_from_string(path.read_bytes())  # it opens no name that is not in UTF-8
    onnx.helper.set_model_props(graph, {key: str(value) for key, value in about.items()})
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
