"""Files of embeddings: numpy's .npz, .csv and .parquet."""

import importlib.util
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..console.tables import csv_cell, csv_line
from ..errors import UserFileNotFoundError, UserValueError
from ..system.outputs import whole_file
from ..weights.pickled_values import RefusedError
from ..weights.safe_pickle import reason_of
from ..weights.torch_file import stored_parts
from .embeddings import ARRAYS, Embeddings

FORMATS = (".npz", ".csv", ".parquet")
_COLUMNS = ("name", "scale", "cell", "left", "top", "right", "bottom")

_DAMAGED = (
    *(KeyError, TypeError, ValueError, RuntimeError, MemoryError),
    *(EOFError, RefusedError, zipfile.BadZipFile),
)
"""What the readers raise at files that are not ours."""


def check_format(path: str | Path) -> None:
    """Refuse a file of another format, or of one whose package is not installed.

    Raises:
        ValueError: Another suffix, or .parquet without pyarrow.
    """
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        instead = "choose .npz, which numpy reads too" if suffix == ".pt" else "rename it"
        raise UserValueError(f"OUT must end in {', '.join(FORMATS)}, but got {path}; {instead}.")
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UserValueError(
            f"pyarrow must be installed to read and write {path}, but it is not; run "
            "`pip install pyarrow`, or choose .npz or .csv."
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
    write = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}[Path(path).suffix]
    with whole_file(path, "wb") as file:
        write(file, about, iter(parts))


def read_embeddings(path: str | Path) -> Embeddings:
    """Read an .npz or .parquet that ``embed`` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Another file, or one that is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise UserFileNotFoundError(
            f"the embeddings must be a file that `embed` wrote, but there is no {path}."
        )
    readers = {".npz": read_npz, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise UserValueError(
            f"the embeddings must be a file that `embed` wrote in {' or '.join(readers)}, which "
            f"tell of which weights they are, but got {path}; run `embed` again with such an OUT."
        )
    check_format(path)
    try:
        return readers[path.suffix](path)
    except _DAMAGED as error:
        raise UserValueError(
            f"the embeddings must be a file that `embed` wrote, but {path} cannot be read as one "
            f"({reason_of(error)}); run `embed` again."
        ) from error


def read_npz(path: Path, about: dict[str, Any] | None = None) -> Embeddings:
    """Read an .npz of rows.

    Args:
        path: Of the file.
        about: What the rows were made with; None reads it from the file.
    """
    with path.open("rb") as file:
        stored_parts(file)
    with np.load(path) as file:
        if about is None:
            about = json.loads(str(file["about"]))
        # Files of earlier versions hold no unreadable images.
        unreadable = file["unreadable"].tolist() if "unreadable" in file else []
        return Embeddings(
            file["names"].tolist(),
            **{name: file[name] for name in ARRAYS},
            about=about,
            unreadable=[(name, reason) for name, reason in unreadable],
        )


def _npz(file: IO[bytes], about: Mapping[str, Any], parts: Iterator[Embeddings]) -> None:
    rows = Embeddings.join(list(parts))
    np.savez(
        file,
        names=np.array(rows.names, dtype=np.str_),
        unreadable=np.array(rows.unreadable, dtype=np.str_).reshape(-1, 2),
        about=np.array(json.dumps(about)),
        **{name: getattr(rows, name) for name in ARRAYS},
    )


def _csv(file: IO[bytes], about: Mapping[str, Any], parts: Iterator[Embeddings]) -> None:
    def write(*cells: Any) -> None:
        # As it is on the disk, for a name that is no UTF-8.
        file.write(csv_line(cells).encode("utf-8", "surrogateescape"))

    head_is_written = False
    for part in filter(len, parts):
        if not head_is_written:
            write(*_COLUMNS, *(f"f{i}" for i in range(part.features.shape[1])))
            head_is_written = True
        for name, scale, cell, box, row in zip(
            part.names, part.scales, part.cells, part.boxes, part.features, strict=True
        ):
            # A float32's own str() is the shortest that reads back as the same number.
            write(csv_cell(name), scale, cell, *map(str, box), *map(str, row))


def _parquet(file: IO[bytes], about: Mapping[str, Any], parts: Iterator[Embeddings]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = (_table(part, about, pa) for part in parts if len(part))
    first = next(tables)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _table(part: Embeddings, about: Mapping[str, Any], pa: Any) -> Any:
    # Parquet's text is UTF-8; a name that is none is written with backslashes.
    names = [name.encode("utf-8", "surrogateescape") for name in part.names]
    flat = pa.array(part.features.ravel(), pa.float32())
    columns = {
        "name": pa.array([name.decode("utf-8", "backslashreplace") for name in names]),
        "scale": pa.array(part.scales),
        "cell": pa.array(part.cells),
        **{name: pa.array(part.boxes[:, i]) for i, name in enumerate(_COLUMNS[3:])},
        "features": pa.FixedSizeListArray.from_arrays(flat, part.features.shape[1]),
    }
    return pa.table(columns).replace_schema_metadata({"about": json.dumps(about)})


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
