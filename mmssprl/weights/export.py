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
from .checkpoint_file import describe_faults, weights_file
from .description import write_description
from .key_tables import to_detectron2
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
    "detectron2": ExportTarget(
        ".pkl", write_detectron2, load_detectron2, check_detectron2, to_detectron2
    ),
}
"""By the name that users type."""
_CLASSIFIER = ("fc.weight", "fc.bias")  # tensors of torchvision's model that no backbone has


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how it was proved; differences are relative to the largest feature."""

    target: str
    file: Path
    num_bytes: int
    matched: int | None  # tensors that the model holds bit by bit; a graph's have no names
    missing: tuple[str, ...]  # what the file lacks, the model's classifier
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

    The file is written beside ``out`` under another name, loaded into the target's own model and
    compared, tensor by tensor and by the features of random images. Only then it gets its name.

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
        matched, missing = _check_tensors(chosen, source, loaded)
        map_difference, pooled_difference = _check_features(chosen, source, loaded)
        if target in ("pth", "safetensors") and (
            overwrite or not out.with_suffix(".json").exists()
        ):
            write_description(out, cfg)
        draft.replace(out)
    return ExportReport(
        *(target, out, out.stat().st_size, matched, missing, loaded.model),
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


def _check_tensors(
    target: ExportTarget, source: Exported, loaded: Loaded
) -> tuple[int | None, tuple[str, ...]]:
    """Compare names and values; return how many matched, and what only the model has."""
    if loaded.file is None or loaded.state is None:
        return None, ()
    names = {name: target.rename(name) for name in source.state}
    wanted = {new: source.state[old] for old, new in names.items() if new is not None}
    missing = tuple(name for name in loaded.state if name not in loaded.file)
    held = [*loaded.file.items(), *loaded.state.items()]
    faults = {
        "lost": [name for name in wanted if name not in loaded.file],
        "left over": [name for name in loaded.file if name not in loaded.state],
        "missing": [name for name in missing if name not in _CLASSIFIER],
        "changed": sorted({n for n, v in held if n in wanted and not _is_same(v, wanted[n])}),
    }
    found = describe_faults(faults)
    if found:
        raise UserValueError(
            f"every tensor must arrive in {loaded.model}, but got {found}; "
            "nothing was written, export to another target."
        )
    return len(wanted), missing


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


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
