"""DenseCL: MoCo v2 on images and on the cells of the last feature map.

Legend: B images per rank, C features, S cells of a map, D embedding size, K negatives.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ...errors import UserValueError
from ...registry import MODELS
from ..protocol import LossTerm, known_length
from ..queues import NegativeQueue
from ..training_size import TrainingSize
from .moco import MoCo
from .two_views import TwoViewModel, unit


@MODELS.register_module()
class DenseCL(MoCo):
    """Dense Contrastive Learning (CVPR 2021, arXiv:2011.09157).

    F, F' are the last maps of query and key, cells of unit norm; j(i) = argmax_j F_i . F'_j inside
    an image; r = norm_cells(h2(F)), t = norm_cells(h2'(F')), tbar = norm(mean_j h2'(F')_j), a mean
    before the norm. With q, k and Q_1 as in MoCo
    L = (1 - lambda) mean_b nce(q, k, Q_1; T) + lambda mean_{b,i} nce(r_i, t_{j(i)}, Q_2; T);
    then k enters Q_1 and tbar enters Q_2. Both queues have the same length.

    Cells are matched by their features. Their projections carry no information at first.

    Differs from the authors' code: the start of the dense term is a setting of the model, in
    epochs. The differences of ``MoCo`` apply, too.

    Args:
        args, kwargs: Arguments of ``MoCo``; the neck is ``DenseCLNeck`` by default.
        loss_lambda: lambda in [0, 1].
        dense_start_epoch: First epoch, from 0, with the dense term. Before it lambda is 0.
            Published configs: 0.

    Raises:
        ValueError: Values outside these ranges, a neck that pools the map, or as in ``MoCo``.
    """

    default_neck: ClassVar[Mapping] = {"type": "DenseCLNeck"}
    needs = "map"
    _features = TwoViewModel._last_map

    def __init__(
        self, *args: Any, loss_lambda: float = 0.5, dense_start_epoch: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._require("loss_lambda", loss_lambda, 0 <= loss_lambda <= 1, "in [0, 1]")
        self._require("dense_start_epoch", dense_start_epoch, dense_start_epoch >= 0, ">= 0")
        if getattr(self.neck, "with_pool", False):
            raise UserValueError(
                "DenseCL: the neck must keep all cells of the map, which are matched one by one, "
                "but it has num_grid; leave it out."
            )
        self.loss_lambda = loss_lambda
        self.dense_start_epoch = dense_start_epoch
        self._iters_per_epoch: int | None = None

    def _add_queues(self, length: int, in_channels: int) -> None:
        super()._add_queues(length, in_channels)
        self.dense_queue = NegativeQueue(length, in_channels)

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return the numbers of ``MoCo``, and a start of the dense term before the last epoch."""
        start = min(cfg.model.dense_start_epoch, size.epochs - 1)
        return {**super().scaled(cfg, size), "model.dense_start_epoch": start}

    def on_epoch_length(self, num_iters: int) -> None:
        """Set the iterations per epoch, to compute the first step of the dense term."""
        self._iters_per_epoch = num_iters

    @property
    def current_lambda(self) -> float:
        """Lambda of the current step: 0 before the dense term starts."""
        if self.dense_start_epoch:
            known_length(self._iters_per_epoch, f"dense_start_epoch={self.dense_start_epoch}")
        return self.loss_lambda if self.key_encoder.num_updates > self._dense_start else 0.0

    @property
    def _dense_start(self) -> int:
        """Updates before the dense term starts."""
        return self.dense_start_epoch * (self._iters_per_epoch or 0)

    def _embed(self, neck: nn.Module, features: Tensor, *rest: Tensor) -> Sequence[Tensor]:
        """Return q (B, D), r (B, D, S), tbar (B, D) and F (B, C, S), or the same of the keys."""
        z, cells, mean_cell = neck((features,))
        return [unit(x) for x in (z, cells, mean_cell, features.flatten(2))]

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        (loss,) = super()._contrast(queries, keys).values()
        r, _, query_map = queries[1:]
        t, _, key_map = keys[1:]
        positive = t.gather(2, match_cells(query_map, key_map)[:, None].expand_as(t))
        query, key = (each.mT.flatten(0, 1) for each in (r, positive))  # (B S, D)
        dense_loss = self._nce(query, key, self.dense_queue)
        weight = self.current_lambda
        return {"loss_nce": (1 - weight) * loss, "loss_dense": weight * dense_loss}

    def _push(self, keys: Sequence[Tensor]) -> None:
        super()._push(keys)
        self.dense_queue.push(keys[2])

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms with a weight above 0, now in training or else at its end."""
        (term,) = super().loss_terms().values()
        weight = self.loss_lambda if self._iters_per_epoch is None else self.current_lambda
        since = self._dense_start if weight else 0
        terms = {
            "loss_nce": term._replace(weight=1 - weight, since=since),
            "loss_dense": term._replace(weight=weight, since=since, symbol="L_{dense}"),
        }
        return {name: term for name, term in terms.items() if term.weight > 0}


@torch.no_grad()
def match_cells(query_map: Tensor, key_map: Tensor) -> Tensor:
    """Find the most similar key cell for each query cell: maps (B, C, S) -> indices (B, S)."""
    with torch.autocast(query_map.device.type, enabled=False):
        return (query_map.mT @ key_map).argmax(dim=2)
