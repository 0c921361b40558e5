"""MoCo v2: contrast two views of an image with keys of earlier batches.

Legend: B images per rank, W ranks, C features, D embedding size, K negatives.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ...functional import embedding_spread, info_nce, queue_top1
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..grouped_batch_norm import (
    check_groups,
    draw_order,
    group_batch_norms,
    groups_for,
    permute_batch,
)
from ..momentum_encoder import MomentumEncoder, momentum_for
from ..protocol import VIEW_PANELS, HealthPanel, LossTerm
from ..pyramid_model import crop_features
from ..queues import NegativeQueue
from ..training_size import TrainingSize
from .two_views import TwoViewModel, unit


@MODELS.register_module()
class MoCo(TwoViewModel):
    """Momentum Contrast with the head of MoCo v2 (arXiv:1911.05722, arXiv:2003.04297).

    q = norm(h(pool f(x_0))), k = norm(h'(pool f'(x_1))) without gradient;
    L = mean_b nce(q_b, k_b, Q; T) (see ``info_nce``); then the keys of all ranks enter Q.

    At the start of a step f' and h' follow f and h: key <- m key + (1 - m) query. So the keys of a
    batch are never its own negatives. Defaults: facebookresearch/moco.

    Differs from the published code:

    * One process can normalise in several groups. The published code needs one GPU per group.
    * The permutation of the key views depends on the step number alone, not on the run's seed, and
      spreads each group evenly (``draw_order``). There, rank 0 draws and broadcasts it.
    * K need not be a multiple of the batch.

    As in the published code, ranks exchange the normalised key views in float32: four times the
    traffic of uint8 crops.

    Args:
        layout, backbone, data_preprocessor, init_cfg: As in ``TwoViewModel``; f is the backbone.
        neck: h, by default of type ``MoCoV2Neck``; its ``out_channels`` is D. Published: 128.
        queue_length: K, above the keys of one step on all ranks, at most the number of images.
        momentum: m in [0, 1).
        temperature: T > 0.
        bn_groups: Groups per process that BatchNorm normalises separately, a divisor of B.
            Published: 32 images per group.

    Raises:
        ValueError: Values outside these ranges, or a layout with other views.
    """

    default_neck: ClassVar[Mapping] = {"type": "MoCoV2Neck", "with_avg_pool": False}
    health_panels: ClassVar[Sequence[HealthPanel]] = (
        *VIEW_PANELS,
        HealthPanel("share of keys found in the queue", "queue_top1"),
    )
    largest_momentum: ClassVar[float] = 0.999  # published

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        queue_length: int = 65536,
        momentum: float = 0.999,
        temperature: float = 0.2,
        bn_groups: int = 1,
        data_preprocessor: Mapping | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(layout, backbone, neck, data_preprocessor, init_cfg)
        self._require("momentum", momentum, 0 <= momentum < 1, "in [0, 1)")
        self._require("temperature", temperature, temperature > 0, "> 0")
        self._require("bn_groups", bn_groups, bn_groups >= 1, ">= 1")
        self.bn_groups = bn_groups
        self.momentum = momentum
        self.temperature = temperature
        group_batch_norms(self, bn_groups)
        self.key_encoder = MomentumEncoder(self.backbone, self.neck)
        self._add_queues(queue_length, neck["out_channels"])
        self._health: dict[str, Tensor] = {}

    def _add_queues(self, length: int, in_channels: int) -> None:
        self.queue = NegativeQueue(length, in_channels)

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the loss terms. In training, add the keys of this step to the queue."""
        (query_views, *query_rest), of_keys = self._sides(inputs, data_samples)
        if self.training:
            self.key_encoder.update(self.momentum)
        key_backbone, key_neck, *_ = self.key_encoder.copies
        step = self.key_encoder.num_updates
        order = draw_order(step, len(query_views), self.bn_groups, query_views.device)
        key_views, *key_rest = (permute_batch(each, order) for each in of_keys)

        features = self._features(self.backbone, query_views, *query_rest)
        with torch.no_grad():
            key_features = self._features(key_backbone, key_views, *key_rest)
        queries = self._embed(self.neck, features, *query_rest)
        with torch.no_grad():
            keys = self._embed(key_neck, key_features, *key_rest)
            keys = [permute_batch(x, order.argsort()) for x in keys]

        losses = self._contrast(queries, keys)
        if self.training:
            self._push(keys)
        return losses

    def _sides(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return the inputs of queries and of keys, each (B, ...): views first, then the rest."""
        query_views, key_views = inputs[0]
        return [query_views], [key_views]

    def _features(self, backbone: nn.Module, views: Tensor, *rest: Tensor) -> Any:
        """(B, 3, px, px) -> (B, C)."""
        return crop_features(backbone, views[None])[0]

    def _embed(self, neck: nn.Module, features: Any, *rest: Tensor) -> Sequence[Tensor]:
        """(B, C) -> unit vectors (B, D)."""
        (z,) = neck((features,))
        return [unit(z)]

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        self._observe(queries[0], keys[0], self.queue)  # (B, D)
        return {"loss_nce": self._nce(queries[0], keys[0], self.queue)}

    def _nce(
        self, query: Tensor, key: Tensor, queue: NegativeQueue, extra: Tensor | None = None
    ) -> Tensor:
        # A copy: the push overwrites rows that the backward pass still needs.
        negatives = queue.keys.clone()
        return info_nce(query, key, negatives, temperature=self.temperature, extra=extra)

    def _observe(self, query: Tensor, key: Tensor, queue: NegativeQueue) -> None:
        """Record what ``health`` and ``examine`` report about a step."""
        self._health = {
            "embedding_spread": embedding_spread(query),
            "queue_top1": queue_top1(query, key, queue.keys),
        }
        self._embeddings = query.detach(), key

    def _push(self, keys: Sequence[Tensor]) -> None:
        self.queue.push(keys[0])

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return momentum, length of the queue, width of the neck, and groups of BatchNorm.

        The queue has at most half of the images and more than a step: in a longer one, negatives
        include the key of the query's own image from the epoch before. The neck's hidden layer
        widens with the features; published are C -> C. Groups have as many images as in the config.
        """
        model = cfg.model
        neck = model.neck
        largest = cls.largest_momentum if size.is_short else model.momentum
        queue_length = min(model.queue_length, size.num_images // 2)
        group_size = cfg.train_dataloader.batch_size // model.bn_groups
        return {
            "model.momentum": momentum_for(size.num_steps, largest),
            "model.queue_length": max(queue_length, size.step_images + 1),
            "model.neck.hid_channels": neck.hid_channels * size.channels // neck.in_channels,
            "model.bn_groups": groups_for(size.batch_size, size.num_devices, group_size),
        }

    @classmethod
    def size_warnings(cls, cfg: Config, size: TrainingSize) -> list[str]:
        """Warn of a queue with keys of the queries' own images."""
        length = cfg.model.queue_length
        if length <= size.num_images // 2:
            return []
        return [
            f"the queue of {length} keys is longer than half of the {size.num_images} images: "
            "queries meet keys of their own image as negatives; lower batch_size."
        ]

    @classmethod
    def batch_unit(cls, cfg: Mapping[str, Any]) -> int:
        """Return two images per group, because BatchNorm may refuse one."""
        return 2 * cfg.get("bn_groups", 1)

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Check the batch size, the groups of BatchNorm, and the length of the queue."""
        super().check_training(num_images, batch_size, last_batch_size)
        check_groups(self, self.bn_groups, batch_size, last_batch_size)
        self._any_queue.check(batch_size, num_images)

    @property
    def _any_queue(self) -> NegativeQueue:
        """One of the queues; all have the same length and fill."""
        return next(part for part in self.modules() if isinstance(part, NegativeQueue))

    def health(self) -> dict[str, float | Tensor]:
        """Return 'embedding_spread', 'queue_top1' and 'queue_fill'."""
        return {**self._health, "queue_fill": self._any_queue.fill}

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the only term."""
        return {"loss_nce": LossTerm("L_{nce}", 0, 1.0, num_classes=1 + self._any_queue.length)}
