"""The features of many crops, and what they are of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ARRAYS = ("scales", "cells", "boxes", "features")
"""The attributes that have a row per crop, beside the names."""


@dataclass(frozen=True)
class Embeddings:
    """One row per crop, image by image in the order of their names.

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
        chosen = np.flatnonzero(self.scales == scale)
        return Embeddings(
            [self.names[i] for i in chosen.tolist()],
            **{name: getattr(self, name)[chosen] for name in ARRAYS},
            about=self.about,
            unreadable=self.unreadable,
        )

    @classmethod
    def join(cls, parts: "Sequence[Embeddings]") -> "Embeddings":
        """Join the parts of one folder, in their order."""
        filled = [part for part in parts if len(part)] or parts[:1]
        return cls(
            [name for part in parts for name in part.names],
            **{name: np.concatenate([getattr(part, name) for part in filled]) for name in ARRAYS},
            about=parts[0].about,
            unreadable=[pair for part in parts for pair in part.unreadable],
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a file, in the format that its suffix names; see ``formats.FORMATS``.

        Raises:
            FileExistsError: It is there and ``force`` is not given.
            ValueError: Another suffix, or one whose package is not installed.
        """
        from ..system.outputs import prepare_output
        from .formats import check_format, write_embeddings

        check_format(path)
        prepare_output(path, force=force)
        write_embeddings(path, self.about, [self])
