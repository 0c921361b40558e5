"""Cut views of an image, and read a teacher's map of the whole image.

Legend: N images, M the most cells of a map, D its components.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import UserOSError
from ...pyramid import ViewLayout
from ...registry import TRANSFORMS
from ..image_identity import stamp_of
from .pyramid_crop import PyramidCrop, as_array


def grid_of(height: int, width: int, num_cells: int) -> tuple[int, int]:
    """Return rows and columns of a map: at most ``num_cells``, with about the image's aspect."""
    if height > width:
        columns, rows = grid_of(width, height, num_cells)
        return rows, columns
    rows = min(num_cells, max(1, round((num_cells * height / width) ** 0.5)))
    return rows, min(num_cells // rows, max(1, round(rows * width / height)))


@TRANSFORMS.register_module()
class TeacherCrop(PyramidCrop):
    """Cut views as ``PyramidCrop``, and add the teacher's map of the image, for distillation.

    Keys required, optional and deleted, and ``layout``, are as for ``PyramidCrop``; sample_idx
    (int) is required, too.

    **Added Keys:**

    - inputs: As ``PyramidCrop``.
    - data_samples (dict): ``places`` as in ``PyramidCrop``. After ``take_maps``, also ``maps``, a
      float16 tensor (M, D), and ``sizes``, an int64 tensor of the image's height and width in
      pixels and the map's rows and columns in cells.
    """

    def __init__(self, layout: ViewLayout | Mapping | None = None) -> None:
        super().__init__(layout, with_places=True)
        self._file: Path | None = None
        self._written: tuple[int, ...] = ()
        self._shape: tuple[int, int] | None = None

    def take_maps(self, file: Path | None, num_cells: int, size: int) -> None:
        """Read maps (N, M, D) of float16 from a file, or use blank ones for timing."""
        self._file = file
        self._shape = (num_cells, size)
        self._written = stamp_of(file)[:2] if file else ()

    def transform(self, results: dict) -> dict[str, Any]:
        """Cut all views from ``results['img']`` and read its map."""
        found = super().transform(results)
        if self._shape is None:
            return found

        num_cells, size = self._shape
        maps = self._read(results["sample_idx"], num_cells * size)
        height, width, _ = as_array(results["img"]).shape
        samples = found["data_samples"]
        samples["maps"] = torch.from_numpy(maps).view(num_cells, size)
        samples["sizes"] = torch.tensor([height, width, *grid_of(height, width, num_cells)])
        return found

    def _read(self, index: int, length: int) -> np.ndarray:
        """Return the map of an image, float16 (M D,)."""
        if self._file is None:
            return np.ones(length, np.float16)
        if stamp_of(self._file)[:2] != self._written:  # such as by another pass
            raise UserOSError(
                f"{self._file} must not change while a training learns from it, but was written to "
                "or deleted; resume the training, which checks it."
            )
        offset = index * length * np.dtype(np.float16).itemsize
        return np.fromfile(self._file, np.float16, length, offset=offset)
