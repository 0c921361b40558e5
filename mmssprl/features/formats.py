"""Files of embeddings: numpy's .npz, torch's .pt, .csv and .parquet."""

import importlib.util
import json
import pickle
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ..console.tables import csv_cell, csv_line
from ..errors import UserFileNotFoundError, UserValueError
from ..system.outputs import whole_file
from ..weights.safe_pickle import reason_of
from ..weights.torch_file import load_torch, stored_parts
from .embeddings import ARRAYS, Embeddings

FORMATS = (".npz", ".csv", ".parquet", ".pt")
_COLUMNS = ("name", "scale", "cell", "left", "top", "right", "bottom")

_DAMAGED = (
    *(KeyError, TypeError, ValueError, RuntimeError, MemoryError),
    *(EOFError, zipfile.BadZipFile, pickle.UnpicklingError),
)
"""What the readers raise at files that are not ours."""


def check_format(path: str | Path) -> None:
    """Refuse a file of another format, or of one whose package is not installed.

    Raises:
        ValueError: Another suffix, or .parquet without pyarrow.
    """
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise UserValueError(f"OUT must end in {', '.join(FORMATS)}, but got {path}; rename it.")
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UserValueError(
            f"pyarrow must be installed to read and write {path}, but it is not; run "
            "`pip install pyarrow`, or choose .npz, .pt or .csv."
        )


def write_embeddings(
    path: str | Path, about: Mapping[str, Any], parts: Iterable[Embeddings]
) -> None:
    """Write one file of all rows, through ``whole_file``.

    Args:
        path: With one of ``FORMATS``; .csv and .parquet are written part by part.
        about: What the rows were made with; not in a .csv.
        parts: The rows, in order; gone through once.
    """
    write = {".npz": _npz, ".pt": _pt, ".csv": _csv, ".parquet": _parquet}[Path(path).suffix]
    with whole_file(path, "wb") as file:
        write(file, about, parts)


def read_embeddings(path: str | Path) -> Embeddings:
    """Read an .npz, .pt or .parquet that ``embed`` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Another file, or one that is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise UserFileNotFoundError(
            f"the embeddings must be a file that `embed` wrote, but there is no {path}."
        )
    readers = {".npz": _read_npz, ".pt": _read_pt, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise UserValueError(
            f"the embeddings must be a file that `embed` wrote in {', '.join(readers)}, which tell "
            f"of which weights they are, but got {path}; run `embed` again with such an OUT."
        )
    check_format(path)
    try:
        content, about = readers[path.suffix](path)
        arrays = {name: np.asarray(content[name]) for name in ARRAYS}
        names = [str(name) for name in content["names"]]
        return Embeddings(names, **arrays, about=about, unreadable=[])
    except _DAMAGED as error:
        raise UserValueError(
            f"the embeddings must be a file that `embed` wrote, but {path} cannot be read as one "
            f"({reason_of(error)}); run `embed` again."
        ) from error


def _npz(file: IO[bytes], about: Mapping[str, Any], parts: Iterable[Embeddings]) -> None:
    rows = Embeddings.join(list(parts))
    names = np.array(rows.names, dtype=np.str_)
    others = {name: getattr(rows, name) for name in ARRAYS}
    np.savez(file, names=names, about=np.array(json.dumps(about)), **others)


def _read_npz(path: Path) -> tuple[Mapping[str, Any], dict[str, Any]]:
    with path.open("rb") as file:
        stored_parts(file)
    with np.load(path) as file:
        return {name: file[name] for name in ("names", *ARRAYS)}, json.loads(str(file["about"]))


def _pt(file: IO[bytes], about: Mapping[str, Any], parts: Iterable[Embeddings]) -> None:
    rows = Embeddings.join(list(parts))
    tensors = {name: torch.from_numpy(getattr(rows, name)) for name in ARRAYS}
    torch.save({"names": rows.names, **tensors, "about": dict(about)}, file)


def _read_pt(path: Path) -> tuple[Mapping[str, Any], dict[str, Any]]:
    content = load_torch(path)
    return content, content["about"]


def _csv(file: IO[bytes], about: Mapping[str, Any], parts: Iterable[Embeddings]) -> None:
    head_is_written = False

    def write(*cells: Any) -> None:
        # As it is on the disk, for a name that is no UTF-8.
        file.write(csv_line(cells).encode("utf-8", "surrogateescape"))

    for part in parts:
        if not head_is_written:
            write(*_COLUMNS, *(f"f{i}" for i in range(part.features.shape[1])))
            head_is_written = True
        for name, scale, cell, box, row in zip(
            part.names, part.scales, part.cells, part.boxes, part.features, strict=True
        ):
            # A float32's own str() is the shortest that reads back as the same number.
            write(csv_cell(name), scale, cell, *map(str, box), *map(str, row))


def _parquet(file: IO[bytes], about: Mapping[str, Any], parts: Iterable[Embeddings]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for part in parts:
        size = part.features.shape[1]
        flat = pa.array(part.features.ravel(), pa.float32())
        # Parquet's text is UTF-8; a name that is none is written with backslashes.
        names = [name.encode("utf-8", "surrogateescape") for name in part.names]
        columns = {
            "name": pa.array([name.decode("utf-8", "backslashreplace") for name in names]),
            "scale": pa.array(part.scales),
            "cell": pa.array(part.cells),
            **{name: pa.array(part.boxes[:, i]) for i, name in enumerate(_COLUMNS[3:])},
            "features": pa.FixedSizeListArray.from_arrays(flat, size),
        }
        table = pa.table(columns).replace_schema_metadata({"about": json.dumps(about)})
        if writer is None:
            writer = pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _read_parquet(path: Path) -> tuple[Mapping[str, Any], dict[str, Any]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    features = table["features"].combine_chunks()
    content = {
        "names": table["name"].to_pylist(),
        "scales": table["scale"].to_numpy(),
        "cells": table["cell"].to_numpy(),
        "boxes": np.stack([table[name].to_numpy() for name in _COLUMNS[3:]], axis=1),
        "features": features.flatten().to_numpy().reshape(len(table), -1),
    }
    return content, json.loads(table.schema.metadata[b"about"])
