"""Export weights to the formats of other packages; each file is read back and compared."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mmengine.config import Config

from ..errors import UserFileExistsError, UserValueError
from ..pixels import Normalisation
from ..system.outputs import prepare_output
from .backbone import find_config, load_network
from .description import describe, read_description, refuse_other_json, write_description
from .pooled import largest_difference, random_images
from .sources import weights_file
from .targets import TARGETS


@dataclass(frozen=True)
class ExportReport:
    """The written file, and how much its features of random images differ when read back.

    Attributes:
        target: Format of the file.
        file: Path of the file.
        difference: Largest difference of the features, relative to the largest feature.
        tolerance: Largest difference that is allowed.
        normalisation: ``mean`` and ``std`` of the images that the network takes.
    """

    target: str
    file: Path
    difference: float
    tolerance: float
    normalisation: Normalisation


def export_weights(
    checkpoint: str | Path,
    target: str,
    out: str | Path | None = None,
    *,
    config: str | Path | None = None,
    overwrite: bool = False,
) -> ExportReport:
    """Write a backbone in another package's format.

    A temporary file is read back, and its features of random images are compared first.

    Args:
        checkpoint: Backbone weights, or a training checkpoint.
        target: 'pth', 'safetensors', 'onnx' or 'detectron2'.
        out: File to write; None writes it next to the checkpoint, with its name.
        config: Config with ``model.backbone``; None takes ``NAME.json`` next to the weights.
        overwrite: Replace an existing file.

    Raises:
        ValueError: The target cannot hold the backbone, or its features differ. Nothing is written.
        FileExistsError: ``out`` exists.
        FileNotFoundError: A file does not exist.
    """
    if target not in TARGETS:
        raise UserValueError(f"the target must be one of {', '.join(TARGETS)}, but got {target!r}.")
    kind = TARGETS[target]
    checkpoint = str(weights_file(checkpoint))
    out = Path(default_output(checkpoint, target) if out is None else out)
    if out.resolve() == Path(checkpoint).resolve():
        raise UserValueError(f"the output must not be the checkpoint, {out}; give another path.")
    prepare_output(out, kind.suffix, overwrite=overwrite)
    if kind.is_described:
        refuse_other_json(out.with_suffix(".json"))

    cfg = find_config(checkpoint, None if config is None else str(config))
    backbone = load_network(checkpoint, cfg)
    # In a temporary folder, under its final name: readers go by the suffix.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as folder:
        draft = Path(folder) / out.name
        kind.write(backbone, cfg, draft)
        images = random_images(backbone, cfg)
        difference = largest_difference(kind.read(draft, cfg), backbone, images)
        if difference > kind.tolerance:
            raise UserValueError(
                f"features of the {target} file must equal the backbone's within "
                f"{kind.tolerance:g} of the largest, but differ by {difference:.3g}. Nothing was "
                "written; export to another target."
            )
        if kind.is_described:
            _describe(out, cfg, overwrite=overwrite)
        draft.replace(out)
    return ExportReport(target, out, difference, kind.tolerance, Normalisation.of_config(cfg))


def _describe(out: Path, cfg: Config, *, overwrite: bool) -> None:
    """Write the description of an exported file; an existing one must say the same."""
    path = out.with_suffix(".json")
    if overwrite or not path.exists():
        write_description(out, cfg)
        return

    wanted = describe(cfg)
    existing = describe(read_description(path))
    # As JSON, which writes tuples as lists.
    others = [
        key
        for key in ("backbone", "pixels")
        if json.dumps(existing[key]) != json.dumps(wanted[key])
    ]
    if others:
        raise UserFileExistsError(
            f"{path} describes other weights ({', '.join(others)} differ); overwrite it by "
            "--overwrite, or give another --out."
        )


def default_output(checkpoint: str, target: str) -> Path:
    """Return ``epoch_2.safetensors``, ``epoch_2_detectron2.pkl`` or ``epoch_2_export.pth``."""
    path = Path(checkpoint)
    suffix = TARGETS[target].suffix
    name = "" if suffix == f".{target}" else f"_{target}"
    out = path.with_name(f"{path.stem}{name}{suffix}")
    return out if out != path else path.with_name(f"{path.stem}_export{suffix}")
