"""The features of many crops, what they are of, and their files: .npz, .csv and .parquet."""

import hashlib
import importlib.util
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ..console.tables import csv_cell, csv_line
from ..errors import UserValueError
from ..system.outputs import prepare_output, whole_file
from ..version import __version__
from .backbone import Crops, FeatureBackbone
from .extract import Images

_ARRAYS = ("scales", "cells", "boxes", "features")  # have a row per crop, beside the names
_COLUMNS = ("name", "scale", "cell", "left", "top", "right", "bottom")
_DAMAGED = (
    *(KeyError, TypeError, ValueError, RuntimeError, MemoryError),
    *(EOFError, zipfile.BadZipFile),
)
"""What the readers raise at files that are not ours."""
_CHANGED = {
    "weights_sha256": "the weights",
    "images_sha256": "the list of images",
    "image_px": "image_px",
    "levels": "patches",
    "mean": "the normalisation of the config",
    "std": "the normalisation of the config",
}  # what makes two embeddings different, and what a user calls it


@dataclass(frozen=True)
class Embeddings:
    """One row per crop, image by image in their order.

    Attributes:
        names: Image of each row, relative to the folder.
        scales: int64 (N,), 0 for the whole image, s for a patch of scale s.
        cells: int64 (N,), the cell in its scale's grid, row by row from 0.
        boxes: float32 (N, 4), left, top, right, bottom in the image's pixels.
        features: float32 (N, C), as the backbone gives them, of any norm.
        about: What they were made with: weights, images and sizes, with digests.
        unreadable: Image and reason of what is left out.
    """

    names: list[str]
    scales: np.ndarray
    cells: np.ndarray
    boxes: np.ndarray
    features: np.ndarray
    about: dict[str, Any] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)

    def of_scale(self, scale: int) -> "Embeddings":
        """Return the rows of one scale; 0 for the whole images."""
        return self.take(np.flatnonzero(self.scales == scale).tolist())

    def take(self, rows: list[int]) -> "Embeddings":
        """Return some of the rows."""
        names = [self.names[row] for row in rows]
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(self, names=names, **arrays)

    @classmethod
    def join(
        cls, parts: "Sequence[Embeddings]", about: Mapping[str, Any] | None = None
    ) -> "Embeddings":
        """Join the parts of one set of images, in their order."""
        filled = [part for part in parts if len(part)] or parts[:1]
        return cls(
            [name for part in parts for name in part.names],
            **{name: np.concatenate([getattr(part, name) for part in filled]) for name in _ARRAYS},
            about=dict(about or {}),
            unreadable=[pair for part in parts for pair in part.unreadable],
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a file, in the format that its suffix names: .npz, .csv or .parquet.

        Raises:
            FileExistsError: It is there and ``overwrite`` is not given.
            ValueError: Another suffix, or one whose package is not installed.
        """
        check_format(path)
        prepare_output(path, overwrite=overwrite)
        with whole_file(path, "wb") as file:
            _WRITERS[Path(path).suffix](file, self)


def check_format(path: str | Path) -> None:
    """Refuse a file of another format, or of one whose package is not installed."""
    suffix = Path(path).suffix
    if suffix not in _WRITERS:
        raise UserValueError(
            f"a file of embeddings must end in {', '.join(_WRITERS)}, but got {path}; rename it."
        )
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UserValueError(
            f"pyarrow must be installed to read and write {path}, but it is not; run "
            "`pip install pyarrow`, or choose .npz or .csv."
        )


def read_embeddings(path: str | Path) -> Embeddings:
    """Read an .npz or .parquet that ``embed`` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Another file, or one that is damaged.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise UserValueError(
            f"embeddings must be a file that `embed` wrote in {' or '.join(readers)}, which tell "
            f"of which weights they are, but got {path}; run `embed` again with such an output."
        )
    check_format(path)
    try:
        return readers[path.suffix](path)
    except _DAMAGED as error:
        raise UserValueError(
            f"embeddings must be a file that `embed` wrote, but {path} cannot be read as one "
            f"({type(error).__name__}); run `embed` again."
        ) from error


def describe(model: FeatureBackbone, weights: Any, images: Images, crops: Crops) -> dict[str, Any]:
    """Return what decides the embeddings, as plain values: two that are equal give the same."""
    state = hashlib.sha256(repr(model.backbone).encode())
    for name, value in sorted(model.backbone.state_dict().items()):
        state.update(name.encode())
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    files = hashlib.sha256()
    for name in images.names:
        files.update(name.encode("utf-8", "surrogateescape") + b"\0")
    files.update(repr(images.sizes()).encode())
    return {
        "mmssprl": __version__,
        "weights": str(weights) if isinstance(weights, str | Path) else "",
        "weights_sha256": state.hexdigest(),
        "images": str(images.root.resolve()) if images.root else "",
        "num_images": len(images),
        "images_sha256": files.hexdigest(),
        "image_px": crops.image_px,
        "levels": [[level.grid, level.resize_px, level.patch_px] for level in crops.levels],
        "mean": list(model.mean),
        "std": list(model.std),
        **({"pixels": model.pixels._asdict()} if model.pixels else {}),
    }


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in what two embeddings differ, by what ``describe`` returned for each; '' if equal."""
    changed = [what for key, what in _CHANGED.items() if before.get(key) != now.get(key)]
    return " and ".join(dict.fromkeys(changed))


def _npz(file: IO[bytes], rows: Embeddings) -> None:
    np.savez(
        file,
        names=np.array(rows.names, dtype=np.str_),
        unreadable=np.array(rows.unreadable, dtype=np.str_).reshape(-1, 2),
        about=np.array(json.dumps(rows.about)),
        **{name: getattr(rows, name) for name in _ARRAYS},
    )


def _read_npz(path: Path) -> Embeddings:
    with np.load(path) as file:
        return Embeddings(
            file["names"].tolist(),
            **{name: file[name] for name in _ARRAYS},
            about=json.loads(str(file["about"])),
            unreadable=[(name, reason) for name, reason in file["unreadable"].tolist()],
        )


def _csv(file: IO[bytes], rows: Embeddings) -> None:
    def write(*cells: Any) -> None:
        # As it is on the disk, for a name that is no UTF-8.
        file.write(csv_line(cells).encode("utf-8", "surrogateescape"))

    write(*_COLUMNS, *(f"f{i}" for i in range(rows.features.shape[1])))
    columns = (rows.names, rows.scales, rows.cells, rows.boxes, rows.features)
    for name, scale, cell, box, row in zip(*columns, strict=True):
        # A float32's own str() is the shortest that reads back as the same number.
        write(csv_cell(name), scale, cell, *map(str, box), *map(str, row))


def write_parquet(
    file: IO[bytes], rows: Embeddings, columns: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Write rows as a table, with more columns by their names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Parquet's text is UTF-8; a name that is none is written with backslashes.
    names = [name.encode("utf-8", "surrogateescape") for name in rows.names]
    flat = pa.array(rows.features.ravel(), pa.float32())
    table = {
        "name": pa.array([name.decode("utf-8", "backslashreplace") for name in names]),
        "scale": pa.array(rows.scales),
        "cell": pa.array(rows.cells),
        **{name: pa.array(rows.boxes[:, i]) for i, name in enumerate(_COLUMNS[3:])},
        "features": pa.FixedSizeListArray.from_arrays(flat, rows.features.shape[1]),
        **{name: pa.array(values) for name, values in (columns or {}).items()},
    }
    about = {"about": json.dumps(rows.about)}
    pq.write_table(pa.table(table).replace_schema_metadata(about), file)


def _read_parquet(path: Path) -> Embeddings:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    features = table["features"].combine_chunks()
    return Embeddings(
        table["name"].to_pylist(),
        scales=table["scale"].to_numpy(),
        cells=table["cell"].to_numpy(),
        boxes=np.stack([table[name].to_numpy() for name in _COLUMNS[3:]], axis=1),
        features=features.flatten().to_numpy().reshape(len(table), -1),
        about=json.loads(table.schema.metadata[b"about"]),
    )


_WRITERS = {".npz": _npz, ".csv": _csv, ".parquet": write_parquet}
