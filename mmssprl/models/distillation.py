"""Pyramid distillation: each crop learns a strong teacher's features of its place.

Legend: B images per rank, V views, P patches per view, C features, D embedding size, M cells of a
teacher's map, R boxes of an image, k side of the student's last map.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserValueError
from ..functional.boxes import cells_of_places, mean_weights
from ..functional.pooling import pool
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .protocol import VIEW_PANELS, HealthPanel, LossTerm
from .pyramid_model import PyramidModel, compiled, last_outputs
from .ssprl import SSPRL
from .training_size import TrainingSize

_TEACHER_PANEL = HealthPanel(
    "cosine to the teacher",
    "cosine(_shuffled)?_(distill_s0|cells)",
    {
        "cosine_distill_s0": "image",
        "cosine_shuffled_distill_s0": "another image",
        "cosine_cells": "cells",
        "cosine_shuffled_cells": "cells of another",
    },
)


class TeacherHead(nn.Module):
    """The loss of embeddings to a teacher's kept map, each at its place.

    T(x) is the teacher's last map of the whole image x on its first D principal components, which
    ``TeacherHook`` keeps in a file. The target of a crop v is the mean of T(x) over its place b_v:

        y_v = mean of T(x) in b_v,   L_s = mean_v [1 - cos(g_s(pool f(v)), y_v)],
        L = (1 - d) sum_s L_s + d L_cells,

    where g_s is the projection head of scale s, and L_cells the same for each of the k x k cells of
    f's last map of the image views, with a separate head. This form is our own; ReLabel
    (arXiv:2101.05022) takes means over boxes of a kept map for labels.

    Args:
        layout: The views.
        size: D.
        dense_weight: d, the share of the loss on cells, in [0, 1].

    Raises:
        ValueError: ``dense_weight`` is out of its range.
    """

    def __init__(self, layout: ViewLayout, size: int, dense_weight: float) -> None:
        super().__init__()
        if not 0 <= dense_weight <= 1:
            raise UserValueError(f"dense_weight must be from 0 to 1, but got {dense_weight}.")
        self.layout = layout
        self.size = size
        names = [f"distill_s{scale}" for scale in range(layout.num_scales)]
        self.weights = dict.fromkeys(names, 1 - dense_weight)
        if dense_weight:
            self.weights["cells"] = dense_weight
        self.cosines: dict[str, Tensor] = {}  # of the last step, to own and to shuffled targets

    def loss(
        self, embeddings: Sequence[Tensor], cells: Tensor | None, samples: Mapping[str, Any] | None
    ) -> dict[str, Tensor]:
        """Compute the weighted terms of the loss.

        Args:
            embeddings: (V, P, B, D) per scale.
            cells: (2, k^2, B, D) of the image views; None if ``dense_weight`` is 0.
            samples: ``places``, (N_g, B, 4) per group; ``maps`` (B, M, D); ``sizes`` (B, 4), see
                ``TeacherCrop``.

        Raises:
            ValueError: There are no maps.
        """
        if samples is None or "maps" not in samples:
            raise UserValueError(
                "learning from a teacher needs its maps with the views, but got none; set "
                "type='TeacherCrop' in train_dataloader.dataset.pipeline, and add "
                "dict(type='TeacherHook', teacher=WEIGHTS) to custom_hooks."
            )
        places = self.layout.split(samples["places"])  # (V, P, B, 4) per scale
        of_scales = enumerate(zip(embeddings, places, strict=True))
        learned = {f"distill_s{scale}": each for scale, each in of_scales}
        if cells is not None:
            side = math.isqrt(cells.shape[1])
            of_cells = cells_of_places(samples["places"][0][:NUM_PYRAMIDS], side)
            learned["cells"] = cells, of_cells.transpose(0, 1)

        targets = self.targets([each for _, each in learned.values()], samples)
        losses = {}
        for (name, (found, _)), target in zip(learned.items(), targets, strict=True):
            cosine = (found * target).sum(-1).mean()
            losses[f"loss_{name}"] = self.weights[name] * (1 - cosine)
            self.cosines[f"cosine_{name}"] = cosine.detach()
            others = target.roll(1, dims=2)
            self.cosines[f"cosine_shuffled_{name}"] = (found.detach() * others).sum(-1).mean()
        return losses

    @torch.no_grad()
    def targets(self, places: Sequence[Tensor], samples: Mapping[str, Tensor]) -> list[Tensor]:
        """Return unit targets (V, P, B, D) at places (V, P, B, 4) of the images, in pixels."""
        with torch.autocast(places[0].device.type, enabled=False):
            size, grid = samples["sizes"].split(2, dim=1)  # (B, 2) each: height, width
            scale = (grid / size).flip(1).repeat(1, 2)  # (B, 4): cells per pixel, x and y
            boxes = torch.cat([each.flatten(0, 1) for each in places]).transpose(0, 1)
            maps = samples["maps"].float()
            weights = mean_weights(boxes * scale[:, None], grid, maps.shape[1])  # (B, R, M)
            means = F.normalize(torch.bmm(weights, maps), dim=-1).transpose(0, 1)  # (R, B, D)
        parts = means.split([each.shape[0] * each.shape[1] for each in places])
        return [part.unflatten(0, each.shape[:2]) for part, each in zip(parts, places, strict=True)]

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms with a weight. A term of 1 is chance: the cosine is 0."""
        terms = {}
        for name, weight in self.weights.items():
            if weight > 0:
                kind, _, scale = name.partition("_s")
                term = LossTerm(f"L_{{{kind}}}", int(scale or 0), weight, unrelated=1.0)
                terms[f"loss_{name}"] = term
        return terms


@MODELS.register_module()
class PyramidDistillation(PyramidModel):
    """Distil a teacher, which sees each whole image once, into a backbone that sees crops.

    Args:
        layout: The views, as in ``SSPRL``.
        backbone: As in ``SSPRL``; with ``dense_weight`` its last output must be a map.
        neck: ``MultiHeadNeck``; its ``out_channels`` are D.
        data_preprocessor: ``PyramidPreprocessor``.
        dense_weight: As in ``TeacherHead``.
        num_chunks: As in ``SSPRL``.
        init_cfg: Initialisation of the whole model, see mmengine.

    Raises:
        ValueError: As ``TeacherHead`` or ``SSPRL``.
    """

    learns_from_teacher = True
    health_panels: ClassVar[Sequence[HealthPanel]] = (*VIEW_PANELS, _TEACHER_PANEL)

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        data_preprocessor: Mapping | None = None,
        dense_weight: float = 0.5,
        num_chunks: int = 1,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(layout, backbone, neck, data_preprocessor, num_chunks, init_cfg)
        self.teacher_head = TeacherHead(self.layout, neck["out_channels"], dense_weight)
        self.dense_neck = _neck_of_cells(neck) if dense_weight else None

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Leave the cells out if the backbone gives no map."""
        return {} if size.gives_map else {"model.dense_weight": 0.0}

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the terms of ``TeacherHead.loss`` of views (N_g, B, 3, px, px) per group."""
        outputs = [self.in_chunks(last_outputs, crops) for crops in inputs]
        embeddings = self.neck(_pooled(outputs, self.layout))
        self.keep_views(embeddings)
        cells = _embed_cells(self.dense_neck, outputs[0])
        return self.teacher_head.loss(embeddings, cells, data_samples)

    def health(self) -> dict[str, float | Tensor]:
        """Return the embeddings' spread, and cosines to targets of the same and of other images."""
        return {**super().health(), **self.teacher_head.cosines}

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms of the head."""
        return self.teacher_head.loss_terms()


@MODELS.register_module()
class AnchoredSSPRL(SSPRL):
    """``SSPRL`` with a backbone that also keeps learning the maps of the weights it starts from.

    L = L_SSPRL + L_teacher, where the teacher is the start itself, as in ``pretrain --weights``.

    Args:
        anchor_neck: ``MultiHeadNeck``; its ``out_channels`` are D of ``TeacherHead``.
        dense_weight: As in ``TeacherHead``.
        *given, **settings: As in ``SSPRL``.

    Raises:
        ValueError: As ``TeacherHead`` or ``SSPRL``.
    """

    learns_from_teacher = True
    teacher_is_start = True
    anchored_form = None
    health_panels: ClassVar[Sequence[HealthPanel]] = (*SSPRL.health_panels, _TEACHER_PANEL)

    def __init__(
        self, *given: Any, anchor_neck: Mapping, dense_weight: float = 0.5, **settings: Any
    ) -> None:
        super().__init__(*given, **settings)
        self.anchor_neck = MODELS.build({"layout": self.layout, **anchor_neck})
        self.anchor_dense_neck = _neck_of_cells(anchor_neck) if dense_weight else None
        self.teacher_head = TeacherHead(self.layout, anchor_neck["out_channels"], dense_weight)

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the terms of both losses of views (N_g, B, 3, px, px) per group."""
        run = compiled(last_outputs) if self.compile_backbone else last_outputs
        outputs = [self.in_chunks(run, crops) for crops in inputs]
        features = _pooled(outputs, self.layout)
        cells = _embed_cells(self.anchor_dense_neck, outputs[0])
        kept = self.teacher_head.loss(self.anchor_neck(features), cells, data_samples)
        return {**self.loss_of_features(features), **kept}

    def health(self) -> dict[str, float | Tensor]:
        """Return what ``SSPRL`` returns, and the cosines to the start's features."""
        return {**super().health(), **self.teacher_head.cosines}

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms of both losses."""
        return {**super().loss_terms(), **self.teacher_head.loss_terms()}


def _neck_of_cells(neck: Mapping) -> Any:
    return MODELS.build({**neck, "layout": ViewLayout(levels=())})


def _embed_cells(neck: nn.Module | None, last: Tensor) -> Tensor | None:
    """Embed the cells of the image views' maps (N_0, B, C, k, k): (2, k^2, B, D)."""
    if neck is None:
        return None
    if last.dim() != 5:
        raise UserValueError(
            "the backbone's last output must be a map (N, C, h, w) for cells, but got "
            f"{tuple(last.flatten(0, 1).shape)}; set dense_weight=0, or out_type='featmap' for a "
            "ViT."
        )
    # (2, B, C, k, k) -> (2, k^2, B, C), as patches of a view.
    found: Tensor = neck([last[:NUM_PYRAMIDS].flatten(3).permute(0, 3, 1, 2)])[0]
    return found


def _pooled(outputs: Sequence[Tensor], layout: ViewLayout) -> list[Tensor]:
    """Pool a backbone's last outputs (N_g, B, C, ...) to features (V, P, B, C) per scale."""
    return layout.split([pool(each.flatten(0, 1)).unflatten(0, each.shape[:2]) for each in outputs])
