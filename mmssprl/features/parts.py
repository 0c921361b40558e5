"""The beginning of a long embedding, kept beside its output until that is whole."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import UserFileExistsError, UserValueError
from ..system.outputs import write_whole
from .about import find_changes
from .embeddings import Embeddings
from .formats import read_npz, write_embeddings

_ABOUT = "about.json"


class Parts:
    """The folder ``OUT.parts``: what is being made, and a file for each part that is done.

    Args:
        out: The output that they are of.
        about: What is being made, see ``describe``.
        force: Drop parts that were made of something else.

    Raises:
        FileExistsError: There are parts of something else, and ``force`` is not given.
    """

    def __init__(self, out: Path, about: Mapping[str, Any], *, force: bool = False) -> None:
        self.folder = out.with_name(f"{out.name}.parts")
        self.about = dict(about)
        described = self.folder / _ABOUT
        if described.is_file():
            changes = find_changes(json.loads(described.read_text()), self.about)
            if changes and not force:
                raise UserFileExistsError(
                    "an embedding that was stopped goes on with the same weights, images and "
                    f"options, but {' and '.join(changes)} changed since {self.folder} was begun; "
                    "pass --force to start anew, or choose another output."
                )
            if changes:
                self.remove()
        elif self.folder.exists():
            raise UserFileExistsError(
                f"{self.folder} must be the beginning of this output, or not exist, but it holds "
                "something else; move it, or choose another output."
            )
        self.folder.mkdir(exist_ok=True)
        write_whole(described, json.dumps(self.about, indent=2) + "\n")

    @property
    def num_done(self) -> int:
        """Images that are done, from the first.

        Raises:
            ValueError: Parts are missing, or overlap.
        """
        done = 0
        for path in self._files():
            start, stop = map(int, path.stem.split("-"))
            if start != done:
                self._refuse(f"{path.name} follows on image {done}")
            done = stop
        return done

    def add(self, start: int, stop: int, embeddings: Embeddings) -> None:
        """Keep the rows of the images from ``start`` to before ``stop``."""
        path = self.folder / f"{start:012}-{stop:012}.npz"
        write_embeddings(path, self.about, [embeddings])

    def count(self, rows_each: int) -> tuple[int, list[tuple[str, str]]]:
        """Return the number of rows, and the unreadable images, without reading any feature.

        Args:
            rows_each: Of an image that is readable.

        Raises:
            ValueError: It is not each image once.
        """
        num_images, num_rows, unreadable = self.about["num_images"], 0, []
        for path in self._files():
            with np.load(path) as file:
                num_rows += len(file["cells"])
                unreadable += [(name, reason) for name, reason in file["unreadable"].tolist()]
        if self.num_done != num_images or num_rows != rows_each * (num_images - len(unreadable)):
            self._refuse(f"there are {num_rows} rows and {len(unreadable)} unreadable images")
        return num_rows, unreadable

    def __iter__(self) -> Iterator[Embeddings]:
        """Yield the parts in order."""
        return (read_npz(path, self.about) for path in self._files())

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*-*.npz"))

    def _refuse(self, found: str) -> NoReturn:
        raise UserValueError(
            f"the parts of an embedding must hold each of its {self.about['num_images']} images "
            f"once, but in {self.folder} {found}; delete that folder, and the same command begins "
            "anew."
        )
