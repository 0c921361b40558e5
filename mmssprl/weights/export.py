"""Export weights to the formats of other packages; each file is read back and compared."""

import json
import math
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import UserFileExistsError, UserValueError
from ..pixels import Normalisation
from ..pyramid import ViewLayout
from ..system.outputs import prepare_output, whole_file
from .backbone import find_config, load_network
from .description import channels_of, describe, read_description, write_description
from .names import to_detectron2
from .onnx import Graph, Pooled, write_onnx
from .sources import weights_file

TARGETS = {"pth": ".pth", "safetensors": ".safetensors", "onnx": ".onnx", "detectron2": ".pkl"}
"""Suffixes of the files, by the name that users type."""
_TOLERANCE, _ONNX_TOLERANCE = 1e-5, 1e-4
"""Largest difference of features, relative to the largest: float32 sums in another order, and
onnxruntime fuses BatchNorm into the convolutions."""

_OF_DETECTRON2 = {
    "deep_stem": False,
    "avg_down": False,
    "style": "pytorch",
    "dilations": (1, 1, 1, 1),
    "strides": (1, 2, 2, 2),
    "norm": "BatchNorm with eps=1e-05",
}
"""Settings of the ResNets that detectron2 builds, at any width, with up to four stages."""


@dataclass(frozen=True)
class ExportReport:
    """The written file, and how much its features of random images differ when read back."""

    target: str
    file: Path
    difference: float  # relative to the largest feature, as the tolerance
    tolerance: float
    normalisation: Normalisation  # of the images that the network takes


def export_weights(
    checkpoint: str | Path,
    target: str,
    out: str | Path | None = None,
    *,
    config: str | Path | None = None,
    overwrite: bool = False,
) -> ExportReport:
    """Write a backbone to ``out`` in another package's format, a name of ``TARGETS``.

    A temporary file is read back and its features of random images are compared first. The config
    with ``model.backbone`` is by default the description next to the checkpoint. Raises ValueError,
    and writes nothing, if the target cannot hold the backbone or its features differ.
    """
    if target not in TARGETS:
        raise UserValueError(f"the target must be one of {', '.join(TARGETS)}, but got {target!r}.")
    checkpoint, config = str(weights_file(checkpoint)), None if config is None else str(config)
    out = Path(default_output(checkpoint, target) if out is None else out)
    if out.resolve() == Path(checkpoint).resolve():
        raise UserValueError(f"the output must not be the checkpoint, {out}; give another path.")
    prepare_output(out, TARGETS[target], overwrite=overwrite)
    cfg = find_config(checkpoint, config)
    backbone = load_network(checkpoint, cfg)
    # In a temporary folder, under its final name: readers go by the suffix.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as folder:
        draft = Path(folder) / out.name
        write(backbone, cfg, target, draft)
        run = Graph(draft) if target == "onnx" else Pooled(load_network(str(draft), cfg))
        tolerance = _ONNX_TOLERANCE if target == "onnx" else _TOLERANCE
        difference = _largest_difference(run, backbone, cfg)
        if difference > tolerance:
            raise UserValueError(
                f"features of the {target} file must equal the backbone's within {tolerance:g} of "
                f"the largest, but differ by {difference:.3g}. Nothing was written; export to "
                "another target."
            )
        if target in ("pth", "safetensors"):
            _describe(out, cfg, overwrite=overwrite)
        draft.replace(out)
    own = Normalisation.of_config(cfg)
    return ExportReport(target, out, difference, tolerance, own)


def _describe(out: Path, cfg: Config, *, overwrite: bool) -> None:
    """Write the description of an exported file; an existing one must say the same."""
    path = out.with_suffix(".json")
    wanted = describe(cfg)
    if path.exists() and not overwrite:
        existing = describe(read_description(path))
        texts = {key: json.dumps(value) for key, value in wanted.items()}  # tuples are lists
        others = [key for key in ("backbone", "pixels") if json.dumps(existing[key]) != texts[key]]
        if others:
            raise UserFileExistsError(
                f"{path} describes other weights ({', '.join(others)} differ); overwrite it by "
                "--overwrite, or give another --out."
            )
        return
    write_description(out, cfg)


def default_output(checkpoint: str, target: str) -> Path:
    """Return ``epoch_2.safetensors``, ``epoch_2_detectron2.pkl`` or ``epoch_2_export.pth``."""
    path, suffix = Path(checkpoint), TARGETS[target]
    out = path.with_name(f"{path.stem}{'' if suffix == f'.{target}' else f'_{target}'}{suffix}")
    return out if out != path else path.with_name(f"{path.stem}_export{suffix}")


def write(backbone: nn.Module, cfg: Config, target: str, path: Path) -> None:
    """Write one file without checking it."""
    if target == "detectron2":
        _write_detectron2(backbone, cfg, path)
        return
    if target == "onnx":
        images = next(_images(backbone, cfg))
        own = Normalisation.of_config(cfg)
        about = {"mean": str(own.numbers["mean"]), "std": str(own.numbers["std"])}
        write_onnx(backbone, images, path, any_size=isinstance(backbone, ResNet), about=about)
        return
    # Contiguous copies: safetensors takes neither shared nor channels-last tensors.
    state = {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in backbone.state_dict().items()
    }
    with whole_file(path, "wb") as file:
        if target == "pth":
            torch.save(state, file)
        else:  # save_file would make a file that only its owner can read
            file.write(save(state, {"format": "pt"}))


@torch.no_grad()
def _largest_difference(run: Pooled | Graph, backbone: nn.Module, cfg: Config) -> float:
    """Compare the last and the pooled output; infinity for other shapes and NaN."""
    differences = [0.0]
    for images in _images(backbone, cfg):
        for got, want in zip(run(images), Pooled(backbone)(images), strict=True):
            if got.shape != want.shape:
                return math.inf
            differences.append(float((got - want).abs().max() / want.abs().max().clamp(min=1e-12)))
    return max(differences) if all(map(math.isfinite, differences)) else math.inf


def _images(backbone: nn.Module, cfg: Config) -> Iterator[Tensor]:
    """Yield images of the size that the backbone was built for, of the image views, or 224 px.

    Then other ones, because a traced graph can hold the first shape as constants.
    """
    spec, layout = cfg.model.backbone, cfg.model.get("layout")
    channels = spec.get("in_channels") or (spec.get("options") or {}).get("in_chans")
    channels = channels or channels_of(cfg)
    usual = [ViewLayout.build(layout).image_px if layout else 224] * 2
    height, width = map(int, getattr(backbone, "img_size", usual))
    generator = torch.Generator().manual_seed(0)
    yield torch.randn(2, channels, height, width, generator=generator)
    if isinstance(backbone, ResNet):
        height, width = 160, 192
    yield torch.randn(3, channels, height, width, generator=generator)


def _write_detectron2(backbone: nn.Module, cfg: Config, path: Path) -> None:
    """Write a ``.pkl`` that detectron2's checkpointer loads by matching names."""
    if wrong := _difference(backbone):
        raise UserValueError(
            f"detectron2 needs a plain ResNet, but the backbone of {cfg.filename} has {wrong}; "
            "export it to pth, safetensors or onnx."
        )
    state = backbone.state_dict().items()
    model = {theirs: value.numpy() for ours, value in state if (theirs := to_detectron2(ours))}
    content = {"model": model, "__author__": "mmssprl", "matching_heuristics": True}
    with path.open("wb") as file:
        pickle.dump(content, file, protocol=4)


def _difference(backbone: Any) -> str:
    """Describe how a backbone differs from detectron2's ResNets; '' if it does not."""
    # Subclasses have the same attributes but other blocks, stems or names.
    if type(backbone) is not ResNet:
        return f"the blocks of {type(backbone).__name__}"
    norm = next(m for m in backbone.layer1[-1].children() if "Norm" in type(m).__name__)
    stem = next(m for m in backbone.modules() if isinstance(m, nn.Conv2d))
    kind = "BatchNorm" if isinstance(norm, _BatchNorm) else type(norm).__name__
    wanted: dict[str, Any] = {**_OF_DETECTRON2, "in_channels": 3}
    wanted["expansion"] = get_expansion(ResNet.arch_settings[backbone.depth][0])
    own: dict[str, Any] = {name: getattr(backbone, name, None) for name in wanted}
    own |= {"norm": f"{kind} with eps={norm.eps}", "in_channels": stem.in_channels}
    for name in ("strides", "dilations"):
        own[name], wanted[name] = tuple(own[name]), wanted[name][: backbone.num_stages]
    return ", ".join(f"{name}={own[name]!r}" for name in wanted if own[name] != wanted[name])
