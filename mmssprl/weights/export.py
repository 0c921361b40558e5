"""Files of weights for other packages, each proved on the package's own model before it stays."""

import math
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..errors import UserValueError
from ..system.outputs import prepare_output
from .backbone import find_config, load_backbone
from .checkpoint_file import weights_file
from .description import write_description
from .onnx import load_onnx, write_onnx
from .targets import (
    Exported,
    ExportTarget,
    Loaded,
    check_detectron2,
    last_and_pooled,
    load_detectron2,
    load_own,
    load_pth,
    write_detectron2,
    write_state,
)

TARGETS = {
    "pth": ExportTarget(".pth", write_state, load_pth),
    "safetensors": ExportTarget(".safetensors", write_state, load_own),
    # onnxruntime fuses BatchNorm into the convolutions, in float32.
    "onnx": ExportTarget(".onnx", write_onnx, load_onnx, tolerance=1e-4),
    "detectron2": ExportTarget(".pkl", write_detectron2, load_detectron2, check_detectron2),
}
"""By the name that users type."""


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how it was proved; differences are relative to the largest feature."""

    target: str
    file: Path
    num_bytes: int
    num_tensors: int
    model: str
    map_difference: float
    pooled_difference: float
    tolerance: float  # of both
    note: str  # how to use the file


def export_weights(
    checkpoint: str | Path,
    target: str,
    out: str | Path | None = None,
    *,
    config: str | Path | None = None,
    overwrite: bool = False,
) -> ExportReport:
    """Write a backbone in another package's format and prove that its features are the same.

    The file is written next to ``out`` under another name and loaded strictly into the target's own
    model. Features of random images are compared. Only then it gets its name.

    Args:
        checkpoint: Training checkpoint or file of backbone weights.
        target: A name of ``TARGETS``.
        out: File to write, with the target's suffix. None takes one beside the checkpoint, by its
            name with ``_<target>``.
        config: Config with ``model.backbone``; None takes the one beside the checkpoint.
        overwrite: Replace an existing file.

    Raises:
        FileNotFoundError: No such checkpoint or config.
        FileExistsError: ``out`` is there and ``overwrite`` is not given.
        ValueError: A backbone that the target cannot hold, a checkpoint without what is asked
            for, or a proof that failed; then nothing is left under ``out``.
    """
    chosen = _choose(target)
    checkpoint, config = str(weights_file(checkpoint)), None if config is None else str(config)
    out = Path(out or default_output(checkpoint, target))
    if out.suffix != chosen.suffix:
        raise UserValueError(
            f"a file for {target} must end in {chosen.suffix}, but got {out.name}."
        )
    if out.resolve() == Path(checkpoint).resolve():
        raise UserValueError(f"the output must be another file than the checkpoint, but got {out}.")
    prepare_output(out, overwrite=overwrite)
    cfg = find_config(checkpoint, config)
    backbone = load_backbone(checkpoint, cfg)
    source = Exported(backbone, cfg, backbone.state_dict())
    chosen.check(source)
    # In a folder of its own, and not under a changed name: readers go by the suffix.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as folder:
        draft = Path(folder) / out.name
        chosen.write(source, draft)
        try:
            loaded = chosen.load(draft, source)
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise UserValueError(
                f"the file for {target} must load into its model, but it does not ({reason}); "
                "nothing was written, export to another target."
            ) from error
        map_difference, pooled_difference = _check_features(chosen, source, loaded)
        if target in ("pth", "safetensors") and (
            overwrite or not out.with_suffix(".json").exists()
        ):
            write_description(out, cfg)
        draft.replace(out)
    return ExportReport(
        *(target, out, out.stat().st_size, len(source.state), loaded.model),
        *(map_difference, pooled_difference, chosen.tolerance, loaded.note),
    )


def default_output(checkpoint: str, target: str) -> Path:
    """Name the export: ``epoch_2.safetensors``, ``epoch_2_detectron2.pkl``.

    What would be the checkpoint's own name gets ``_export``.
    """
    path = Path(checkpoint)
    suffix = _choose(target).suffix
    out = path.with_name(f"{path.stem}{'' if suffix == f'.{target}' else f'_{target}'}{suffix}")
    return out if out != path else path.with_name(f"{path.stem}_export{suffix}")


def _choose(target: str) -> ExportTarget:
    if target not in TARGETS:
        raise UserValueError(f"the target must be one of {', '.join(TARGETS)}, but got {target!r}.")
    return TARGETS[target]


def _check_features(target: ExportTarget, source: Exported, loaded: Loaded) -> tuple[float, float]:
    """Compare features of random images; return the largest differences."""
    ours = last_and_pooled(source.backbone)
    differences = []
    with torch.no_grad():
        for images in _batches(source):
            pairs = zip(loaded.run(images), ours(images), strict=True)
            differences.append([_difference(got, want) for got, want in pairs])
    of_map, pooled = (max(column) for column in zip(*differences, strict=True))
    if max(of_map, pooled) > target.tolerance:
        raise UserValueError(
            f"features of {loaded.model} must equal the backbone's within {target.tolerance:g} of "
            f"the largest, but the map differs by {of_map:.3g}, pooled features by {pooled:.3g}; "
            "nothing was written, export to another target."
        )
    return of_map, pooled


def _batches(source: Exported) -> Iterable[Tensor]:
    """Images (2, C, H, W), then of other sides: a traced graph can hold the first as constants."""
    height, width = source.image_px
    generator = torch.Generator().manual_seed(0)
    yield torch.randn(2, source.in_channels, height, width, generator=generator)
    if source.is_resnet:
        height, width = 160, 192
    yield torch.randn(3, source.in_channels, height, width, generator=generator)


def _difference(got: Tensor, want: Tensor) -> float:
    """Largest difference relative to the largest value; infinite for other shapes and NaN."""
    if got.shape != want.shape:
        return math.inf
    difference = float((got - want).abs().max() / want.abs().max().clamp(min=1e-12))
    return difference if math.isfinite(difference) else math.inf
