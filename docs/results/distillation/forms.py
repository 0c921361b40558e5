"""Forms that the package does not have: a teacher in each step, and codes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mmssprl.distillation.teacher import load_teacher
from mmssprl.functional import sinkhorn
from mmssprl.models import PyramidDistillation
from mmssprl.registry import MODELS


@MODELS.register_module()
class EachCropDistillation(PyramidDistillation):
    """The teacher looks at each crop in each step; its map is put on the kept components.

    Args:
        folder: Folder of the kept maps' components.
        crop_px: Crops are resized to this side for the teacher.
    """

    def __init__(self, *args: Any, teacher: str, folder: str, crop_px: int, **given: Any) -> None:
        super().__init__(*args, **given)
        self.teacher = [load_teacher(teacher)]  # in a list: no part of the checkpoint
        kept = np.load(Path(folder) / "teacher_components.npz")
        self.mean, self.components = (torch.from_numpy(kept[n]) for n in ("mean", "components"))
        self.crop_px = crop_px
        self.teacher_head.targets = self.targets

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Keep the crops for ``targets``."""
        self._crops = inputs[0]  # (V, B, 3, px, px), normalised
        return super().loss(inputs, data_samples)

    @torch.no_grad()
    def targets(self, places: Sequence[Tensor], samples: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the teacher's features of the crops and of their cells."""
        crops = F.interpolate(self._crops.flatten(0, 1), self.crop_px, mode="bilinear")
        maps = self.teacher[0].network.forward_features(crops)  # (V B, C, h, w)
        cells = (maps.movedim(1, 3) - self.mean) @ self.components.T
        cells = cells.movedim(3, 1).unflatten(0, self._crops.shape[:2])  # (V, B, D, h, w)
        found = [cells.mean((3, 4))[:, None]]  # (V, 1, B, D)
        for each in places[1:]:  # (2, k^2, B, 4): the cells of the image views
            side = round(each.shape[1] ** 0.5)
            parts = F.interpolate(cells.flatten(0, 1), (side, side), mode="bilinear")
            parts = parts.unflatten(0, cells.shape[:2]).flatten(3)  # (2, B, D, k^2)
            found.append(parts.permute(0, 3, 1, 2))
        return [F.normalize(each, dim=-1) for each in found]


@MODELS.register_module()
class CodesDistillation(PyramidDistillation):
    """Image views predict the codes of their targets: Eq. 1 and 2 with the teacher's codes.

    C are K means of the kept maps; q = sinkhorn(y C) over the batch, p = softmax(z C' / tau).
    """

    def __init__(self, *args: Any, folder: str, num_prototypes: int = 128, **given: Any) -> None:
        super().__init__(*args, dense_weight=0.0, **given)
        maps = np.fromfile(Path(folder) / "teacher_maps.bin", np.float16)
        size = self.teacher_head.size
        sample = maps.reshape(-1, size)[:: max(1, maps.size // size // 50_000)]
        cells = F.normalize(torch.from_numpy(sample.astype(np.float32)), dim=-1)
        cells = cells[cells.norm(dim=-1) > 0]
        draws = torch.randperm(len(cells), generator=torch.Generator().manual_seed(0))
        centres = cells[draws[:num_prototypes]]
        for _ in range(20):
            nearest = (cells @ centres.T).argmax(1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, cells)
            centres = F.normalize(sums, dim=-1)
        self.register_buffer("centres", centres)
        self.prototypes = nn.Linear(size, num_prototypes, bias=False)

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Return the cross-entropy of both image views to the codes of their own places."""
        outputs = [self.in_chunks(_pooled, crops) for crops in inputs]
        places = self.layout.split(data_samples["places"])
        views = self.neck(self.layout.split(outputs))[0][:, 0]  # (2, B, D)
        self._views = views.detach()
        targets = self.teacher_head.targets(places, data_samples)[0][:, 0]
        codes = torch.stack([sinkhorn(each @ self.centres.T) for each in targets])
        weight = F.normalize(self.prototypes.weight, dim=1)
        logs = F.log_softmax(views @ weight.T / 0.1, dim=-1)
        return {"loss_distill_s0": -(codes * logs).sum(-1).mean()}


def _pooled(backbone: nn.Module, crops: Tensor) -> Tensor:
    last = backbone(crops.flatten(0, 1))[-1]
    return last.mean((2, 3)).unflatten(0, crops.shape[:2])
