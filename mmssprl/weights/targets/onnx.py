"""Backbones and classifiers of `finetune` as ONNX graphs, proved in onnxruntime on the CPU."""

import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from ..._dependencies import is_importable
from ...errors import UserValueError
from ...functional.pooling import pool
from ..backbone import build_model
from .models import image_px
from .target import Exported, Features, Loaded, last_and_pooled

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_INPUT = "images"


def write_onnx(source: Exported, path: Path) -> None:
    """Trace the backbone: normalised RGB images in, feature map and pooled features out.

    The batch size is free, and for a ResNet the image size.
    """
    _trace(source.backbone, last_and_pooled(source.backbone), source, path, "feature_map")


def load_onnx(path: Path, source: Exported) -> Loaded:
    """Check the graph and open it in onnxruntime on the CPU."""
    kind = "RGB " * (source.in_channels == 3)
    note = (
        f"Input '{_INPUT}': float32 {kind}(batch, {source.in_channels}, {_size(source)}), "
        "normalised by the mean and std of pre-training; outputs 'feature_map' and 'pooled'."
    )
    return Loaded("onnxruntime", _session(path, source), None, None, (note,))


def write_classifier(source: Exported, path: Path) -> None:
    """Trace a classifier of `finetune`: RGB images of 0 to 255 in, scores and features out.

    The graph normalises the images. The names of the classes are in its metadata, as JSON.
    """
    model = _classifier(source)
    _trace(model, partial(_scores, model), source, path, "scores")
    import onnx

    graph = onnx.load(path)
    onnx.helper.set_model_props(graph, {"classes": json.dumps(list(source.cfg.finetuning.classes))})
    onnx.save(graph, path)


def load_classifier(path: Path, source: Exported) -> Loaded:
    """Check the graph and open it in onnxruntime on the CPU."""
    run = _session(path, source)
    resize, crop = source.cfg.test_dataloader.dataset.pipeline[1:3]
    note = (
        f"Input '{_INPUT}': float32 RGB (batch, 3, {_size(source)}) of 0 to 255, as the validation "
        f"had it: shorter side {resize.scale} px, centre crop of {crop.crop_size} px; outputs "
        "'scores' of the classes, whose names are in the metadata, and 'pooled'."
    )
    return Loaded("onnxruntime", lambda images: run(_pixels(images)), None, None, (note,))


def run_classifier(source: Exported) -> Callable[[Tensor], Features]:
    """Return what mmpretrain predicts of random images, by its own preprocessor and head."""
    model = _classifier(source)

    def run(images: Tensor) -> Features:
        # Read as BGR, as OpenCV reads files.
        inputs = [*_pixels(images).flip(1).to(torch.uint8)]
        data = {"inputs": inputs, "data_samples": [DataSample() for _ in inputs]}
        scores = torch.stack([sample.pred_score for sample in model.test_step(data)])
        return scores, model.extract_feat(model.data_preprocessor(data)["inputs"])[-1]

    return run


def _pixels(images: Tensor) -> Tensor:
    """Make images of 0 to 255, in whole numbers, of normally distributed values."""
    return (images * 64 + 128).round().clamp(0, 255)


def _classifier(source: Exported) -> Any:
    about = source.cfg.get("finetuning")
    if not about or about.task != "classify":
        raise UserValueError(
            "a whole model for onnx must be a classifier of `finetune --task classify`, but "
            f"{source.cfg.filename} is not the config of one; leave full out to export the "
            "backbone."
        )
    model = build_model(source.cfg.model)
    model.load_state_dict(dict(source.state))
    return model.eval()


def _size(source: Exported) -> str:
    return "height x width" if source.is_resnet else " x ".join(map(str, image_px(source)))


def _trace(
    model: nn.Module,
    run: Callable[[Tensor], Features],
    source: Exported,
    path: Path,
    output: str,
) -> None:
    if not all(map(is_importable, _PACKAGES)):
        raise UserValueError(
            f"target onnx needs packages that are not there; pip install {' '.join(_PACKAGES)}"
        )
    axes = {0: torch.export.Dim.DYNAMIC}
    if source.is_resnet:
        axes |= {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, about torch
            torch.onnx.export(
                _Graph(model, run).eval(),
                (torch.zeros(2, source.in_channels, *image_px(source)),),
                path,
                input_names=[_INPUT],
                output_names=[output, "pooled"],
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


def _session(path: Path, source: Exported) -> Callable[[Tensor], Features]:
    import onnx
    import onnxruntime

    content = path.read_bytes()  # neither takes a name that is no UTF-8
    onnx.checker.check_model(content)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Features:
        try:
            last, pooled = session.run(None, {_INPUT: images.numpy()})
        except Exception as error:  # onnxruntime's own classes derive from nothing narrower
            raise UserValueError(
                f"the graph must run on every batch, but onnxruntime fails on "
                f"{tuple(images.shape)}: a {source.architecture} cannot be traced for free batch "
                "sizes; export it to backbone or safetensors."
            ) from error
        return torch.from_numpy(last), torch.from_numpy(pooled)

    return run


def _scores(model: Any, images: Tensor) -> Features:
    """Return scores and pooled features of images of 0 to 255."""
    norm = model.data_preprocessor
    features = pool(model.backbone((images - norm.mean) / norm.std))  # (N, C)
    logits = model.head((features,))  # (N, K)
    # mmpretrain's heads of several labels have a threshold, those of one have none.
    return logits.sigmoid() if hasattr(model.head, "thr") else logits.softmax(1), features


class _Graph(nn.Module):
    """What ``run`` does with a model, as a module."""

    def __init__(self, model: nn.Module, run: Callable[[Tensor], Features]) -> None:
        super().__init__()
        self.model = model  # whose weights those of the graph are
        self.run = run

    def forward(self, images: Tensor) -> Features:
        return self.run(images)
