"""Cut views of an image, and read a teacher's map of the whole image."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmssprl.pyramid import ViewLayout
from mmssprl.registry import TRANSFORMS

from .pyramid_crop import PyramidCrop, _as_array


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

    **Required Keys:** as ``PyramidCrop``, and sample_idx (int).

    **Optional Keys:** as ``PyramidCrop``.

    **Added Keys:**

    - inputs: As ``PyramidCrop``.
    - data_samples (dict): ``places`` as in ``PyramidCrop``. After ``take_maps``, also ``maps``, a
      float16 tensor (M, D), and ``sizes``, an int64 tensor of the image's height and width in
      pixels and the map's rows and columns in cells.

    **Deleted Keys:** all others.

    Args:
        layout: As in ``PyramidCrop``.
    """

    def __init__(self, layout: ViewLayout | Mapping | None = None) -> None:
        super().__init__(layout, with_places=True)
        self._file: Path | None = None
        self._shape: Any = None
        self._maps: np.ndarray | None = None

    def take_maps(self, file: Path | None, num_images: int, num_cells: int, size: int) -> None:
        """Read maps (``num_images``, M, D) of float16 from a file, or use blank ones for timing."""
        self._file, self._shape, self._maps = file, (num_images, num_cells, size), None

    def transform(self, results: dict) -> dict[str, Any]:
        """Cut all views from ``results['img']`` and read its map."""
        height, width, _ = _as_array(results["img"]).shape
        found = super().transform(results)
        if self._shape is not None:
            grid = grid_of(height, width, self._shape[1])
            found["data_samples"]["maps"] = self._read(results["sample_idx"])
            found["data_samples"]["sizes"] = torch.tensor([height, width, *grid])
        return found

    def _read(self, index: int) -> torch.Tensor:
        if self._file is None:
            return torch.ones(self._shape[1:], dtype=torch.float16)
        if self._maps is None:  # opened in each process
            self._maps = np.memmap(self._file, np.float16, "r", shape=self._shape)
        return torch.from_numpy(self._maps[index].copy())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": None}  # pickle would copy the whole file
