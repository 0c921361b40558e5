"""Pyramid distillation: each crop learns a strong teacher's features of its place.

Legend: B images per rank, V views, P patches per view, C features, D embedding size, M cells of a
teacher's map, R boxes of an image, k side of the student's last map.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserValueError
from ..functional import embedding_spread, measure_views
from ..functional.boxes import cells_of_places, mean_weights
from ..functional.pooling import pool
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .protocol import LossTerm
from .pyramid_model import PyramidModel, crop_outputs


@MODELS.register_module()
class PyramidDistillation(PyramidModel):
    """Distil a teacher, which sees each whole image once, into a backbone that sees crops.

    T(x) is the teacher's last map of the whole image x on its first D principal components, which
    ``TeacherHook`` keeps in a file. The target of a crop v is the mean of T(x) over its place b_v:

        y_v = mean of T(x) in b_v,   L_s = mean_v [1 - cos(g_s(pool f(v)), y_v)],
        L = (1 - d) sum_s alpha_s L_s + d L_cells,

    where g_s is the projection head of scale s, and L_cells the same for each of the k x k cells of
    f's last map of the image views, with a separate head. This form is our own; ReLabel
    (arXiv:2101.05022) takes means over boxes of a kept map for labels.

    Args:
        layout: The views, as in ``SSPRL``.
        backbone: As in ``SSPRL``; with ``dense_weight`` its last output must be a map.
        neck: ``MultiHeadNeck``, whose ``out_channels`` are D.
        data_preprocessor: ``PyramidPreprocessor``.
        alpha: Weight of each scale's term, >= 0.
        dense_weight: d, the share of the loss on cells, in [0, 1].
        num_chunks: As in ``SSPRL``.
        init_cfg: Initialisation of the whole model, see mmengine.

    Raises:
        ValueError: A weight out of its range, or as ``SSPRL``.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        data_preprocessor: Mapping | None = None,
        alpha: float = 1.0,
        dense_weight: float = 0.5,
        num_chunks: int = 1,
        init_cfg: dict | None = None,
    ) -> None:
        for name, value, most in (("alpha", alpha, math.inf), ("dense_weight", dense_weight, 1)):
            if not 0 <= value <= most:
                raise UserValueError(
                    f"PyramidDistillation: {name} must be from 0 to {most}, but got {value}."
                )
        super().__init__(layout, backbone, neck, data_preprocessor, num_chunks, init_cfg)
        self.alpha, self.dense_weight = alpha, dense_weight
        self.size: int = neck["out_channels"]
        self.dense_neck: Any = None
        if dense_weight:
            self.dense_neck = MODELS.build({**neck, "layout": ViewLayout(levels=())})
        self._views: Tensor | None = None  # (2, B, D), embeddings of the last step's image views
        self._cosines: dict[str, Tensor] = {}

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the weighted terms of the loss.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.
            data_samples: ``places``, (N_g, B, 4) per group; ``maps`` (B, M, D); ``sizes`` (B, 4),
                see ``TeacherCrop``.
        """
        if "maps" not in (data_samples or {}):
            raise UserValueError(
                "PyramidDistillation needs the teacher's maps with its views, but got none; set "
                "type='TeacherCrop' in train_dataloader.dataset.pipeline, and add "
                "dict(type='TeacherHook', teacher=WEIGHTS) to custom_hooks."
            )
        outputs = [self.in_chunks(_last_outputs, crops) for crops in inputs]
        pooled = [pool(each.flatten(0, 1)).unflatten(0, each.shape[:2]) for each in outputs]
        places = self.layout.split(data_samples["places"])  # (V, P, B, 4) per scale
        of_scales = list(zip(self.neck(self.layout.split(pooled)), places, strict=True))
        self._views = of_scales[0][0][:NUM_PYRAMIDS].detach().flatten(1, 2)
        learned = {f"distill_s{scale}": each for scale, each in enumerate(of_scales)}
        if self.dense_neck is not None:
            maps = outputs[0][:NUM_PYRAMIDS]  # (2, B, C, k, k)
            if maps.dim() != 5:
                raise UserValueError(
                    "PyramidDistillation: the backbone's last output must be a map (N, C, h, w) "
                    f"for cells, but got {tuple(outputs[0].flatten(0, 1).shape)}; set "
                    "dense_weight=0, or out_type='featmap' for a ViT."
                )
            cells = cells_of_places(data_samples["places"][0][:NUM_PYRAMIDS], maps.shape[-1])
            # (2, B, C, k, k) -> (2, k^2, B, C), as patches of a view.
            embeddings = self.dense_neck([maps.flatten(3).permute(0, 3, 1, 2)])[0]
            learned["cells"] = embeddings, cells.transpose(0, 1)
        targets = self._targets([each for _, each in learned.values()], data_samples)
        weights = self._weights()
        losses = {}
        self._cosines = {}
        for (name, (embeddings, _)), target in zip(learned.items(), targets, strict=True):
            cosine = (embeddings * target).sum(-1).mean()
            losses[f"loss_{name}"] = weights[name] * (1 - cosine)
            self._cosines[f"cosine_{name}"] = cosine.detach()
            others = target.roll(1, dims=2)
            self._cosines[f"cosine_shuffled_{name}"] = (embeddings.detach() * others).sum(-1).mean()
        return losses

    @torch.no_grad()
    def _targets(self, places: Sequence[Tensor], samples: Mapping[str, Tensor]) -> list[Tensor]:
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

    def _weights(self) -> dict[str, float]:
        of_scale = (1 - self.dense_weight) * self.alpha
        weights = {f"distill_s{scale}": of_scale for scale in range(self.layout.num_scales)}
        return weights | ({"cells": self.dense_weight} if self.dense_weight else {})

    def health(self) -> dict[str, float | Tensor]:
        """Return the embeddings' spread, and cosines to targets of the same and of other images."""
        if self._views is None:
            return {}
        return {"embedding_spread": embedding_spread(self._views.flatten(0, 1)), **self._cosines}

    def examine(self) -> dict[str, Tensor]:
        """Return ``measure_views`` of the image views."""
        return {} if self._views is None else measure_views(*self._views)

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms whose weight is not zero: 1 is a cosine of 0, chance."""
        terms = {}
        for name, weight in self._weights().items():
            kind, _, scale = name.partition("_s")
            term = LossTerm(f"L_{{{kind}}}", int(scale or 0), weight, unrelated=1.0)
            terms[f"loss_{name}"] = term
        return {name: term for name, term in terms.items() if term.weight > 0}


def _last_outputs(backbone: nn.Module, crops: Tensor) -> Tensor:
    """Run a backbone on crops (N_g, B, 3, px, px): its last output (N_g, B, C, ...)."""
    last: Tensor = crop_outputs(backbone, crops)[-1]
    return last.unflatten(0, crops.shape[:2])
