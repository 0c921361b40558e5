"""Prototypes, balanced targets and the losses of SS-PRL (Eq. 1-4).

Legend: V views, M_s patches per view, B images per rank, D embedding size, K_s prototypes.
Index s is the scale: 0 is the whole image, 1..S are the patch levels. M_s is the paper's number of
cells, or ``num_sampled`` of the level.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from mmengine import dist
from mmengine.model import BaseModule
from torch import Tensor, nn

from ..errors import UserValueError
from ..functional import cross_scale_loss, log_softmax, sinkhorn_jointly, swapped_prediction_loss
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .protocol import known_length
from .prototypes import AssignmentRecord, CorrelationLearner, Prototypes
from .queues import FeatureQueue
from .settings import check_least, check_positive, per_level


@MODELS.register_module()
class SinkhornHead(BaseModule):
    """Swapped prediction on every scale, and across scales from patches to the image.

    The loss is Eq. 4, L = L_pyr + lambda L_cross with alpha_0 = 1. Each term is a mean over its
    (view, target) pairs, which is half of the paper's sum. LARC is invariant to this factor (norms
    > 0).

    The variants differ in two points. The input of g_s is the mean over patches of the softmax
    ('paper') or of the raw scores ('released'). A pyramid predicts its own image code ('paper') or
    the codes of both pyramids ('released').

    Levels with ``num_sampled``, an extension of this package, differ from both variants: assignment
    and queue contain only the sampled patches, and Eq. 2 and mu(P_s) are means over these.

    Args:
        layout: The views.
        in_channels: D. Paper: 128.
        num_prototypes: K_0. Released recipe on COCO: 300.
        num_patch_prototypes: K_s, one number for all levels or one per level. Released: 150.
        variant: 'paper' or 'released'.
        alpha: alpha_s of the levels in Eq. 2, one number or one per level, >= 0. Paper: 0.25.
        beta: beta_s in Eq. 3, one number or one per level, >= 0. Paper: 0.25.
        cross_weight: lambda in Eq. 4, >= 0. Paper: 1.
        temperature: tau > 0. Paper: 0.1.
        epsilon: Regularisation of Sinkhorn > 0. Paper: 0.05.
        num_iters: Iterations of Sinkhorn >= 1. Paper: 3.
        share_prototypes: Whether all scales share K_0 prototypes. Ignores
            ``num_patch_prototypes``.
        with_pyramid: Whether L_pyr has patch terms; False sets alpha_s = 0 for s >= 1.
        with_cross: Whether the loss has L_cross.
        queue_length: Rows per view and rank of the image scale's queue; 0 for no queue. Released:
            960.
        patch_queue_length: The same for the levels, one number or one per level. Released: 2,496.
        queue_start_epoch: First epoch, from 0, that uses the queues. A queue is used only when it
            is full. Released: 80.
        freeze_epochs: First epochs, in which prototypes and g_s do not change. Released: 1.
        freeze_iters: The same in iterations. Give only one of the two.

    Raises:
        ValueError: Values outside these ranges, or values that contradict each other.
    """

    data_fields: ClassVar[Sequence[str]] = (
        *("num_prototypes", "num_patch_prototypes", "queue_length", "patch_queue_length"),
        *("queue_start_epoch", "freeze_epochs"),
    )
    """Arguments that follow the images of a training."""
    prototypes: Any  # nn.ModuleList over scales
    correlation: Any  # nn.ModuleList over levels
    queues: Any  # nn.ModuleList over scales, None for no queue

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        in_channels: int = 128,
        num_prototypes: int = 300,
        num_patch_prototypes: int | Sequence[int] = 150,
        variant: Literal["paper", "released"] = "paper",
        alpha: float | Sequence[float] = 0.25,
        beta: float | Sequence[float] = 0.25,
        cross_weight: float = 1.0,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        num_iters: int = 3,
        share_prototypes: bool = False,
        with_pyramid: bool = True,
        with_cross: bool = True,
        queue_length: int = 0,
        patch_queue_length: int | Sequence[int] = 0,
        queue_start_epoch: int = 0,
        freeze_epochs: int = 0,
        freeze_iters: int = 0,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg=init_cfg)
        self.layout = ViewLayout.build(layout)
        self.variant = variant
        self.cross_weight = cross_weight
        self.temperature = temperature
        self.epsilon = epsilon
        self.num_iters = num_iters
        self.with_pyramid = with_pyramid
        self.with_cross = with_cross
        self.queue_start_epoch = queue_start_epoch
        self.freeze_epochs = freeze_epochs
        self.freeze_iters = freeze_iters
        check_least(1, num_prototypes=num_prototypes, num_iters=num_iters)
        check_least(0, cross_weight=cross_weight, queue_length=queue_length)
        check_positive(temperature=temperature, epsilon=epsilon)
        self._check_settings()

        num_levels = self.layout.num_scales - 1
        self.alpha = [1.0, *per_level(alpha, num_levels, "alpha", 0)]
        self.beta = [1.0, *per_level(beta, num_levels, "beta", 0)]  # beta_0 enters no term
        counts = [num_prototypes, *per_level(num_patch_prototypes, num_levels, "prototypes", 1)]
        if share_prototypes:
            counts = [num_prototypes] * len(counts)
            self.prototypes = nn.ModuleList([Prototypes(in_channels, num_prototypes)] * len(counts))
        else:
            self.prototypes = nn.ModuleList(Prototypes(in_channels, k) for k in counts)
        self.correlation = nn.ModuleList()
        if with_cross:
            self.correlation.extend(CorrelationLearner(k, num_prototypes) for k in counts[1:])

        lengths = [queue_length, *per_level(patch_queue_length, num_levels, "queue_length", 0)]
        self.queues = nn.ModuleList(
            FeatureQueue(length, in_channels)  # type: ignore[misc]
            if length and scale in self.assigned_scales
            else None
            for scale, length in enumerate(lengths)
        )

        self.num_iterations = 0
        """Training steps so far, in the extra state: reading a buffer would wait for the device."""
        self.assignments = AssignmentRecord(counts)
        self._iters_per_epoch: int | None = None
        self._batch_is_checked = False

    def _check_settings(self) -> None:
        if self.variant not in ("paper", "released"):
            raise UserValueError(
                f"variant must be 'paper' or 'released', but got {self.variant!r}."
            )
        check_least(0, queue_start_epoch=self.queue_start_epoch)
        check_least(0, freeze_epochs=self.freeze_epochs, freeze_iters=self.freeze_iters)
        if self.freeze_epochs and self.freeze_iters:
            raise UserValueError(
                "give freeze_epochs or freeze_iters, but got "
                f"{self.freeze_epochs} and {self.freeze_iters}."
            )
        if self.layout.num_scales > 1 and not (self.with_pyramid or self.with_cross):
            raise UserValueError(
                "with_pyramid=False and with_cross=False leave the patch views without a loss; "
                "for the image scale alone set levels=[] in the layout."
            )

    @property
    def assigned_scales(self) -> range:
        """The scales with codes that a loss term needs."""
        return range(self.layout.num_scales if self.with_pyramid else 1)

    @property
    def is_frozen(self) -> bool:
        """Whether the next step freezes prototypes and correlation learners."""
        freeze_iters = self.freeze_iters or self._iterations("freeze_epochs", self.freeze_epochs)
        return self.num_iterations < freeze_iters

    @property
    def uses_queues(self) -> bool:
        """Whether the queues have started by the next step."""
        return self.num_iterations >= self._iterations("queue_start_epoch", self.queue_start_epoch)

    def set_epoch_length(self, num_iters: int) -> None:
        """Set the iterations per epoch, for settings in epochs."""
        self._iters_per_epoch = num_iters

    def loss(self, embeddings: Sequence[Tensor]) -> dict[str, Tensor]:
        """Compute the weighted loss terms. In training mode, also update queues and counters.

        Args:
            embeddings: ``[0]`` is (V_0, 1, B, D), the two image views first; ``[s]`` is
                (2, M_s, B, D); unit norm.

        Returns:
            'loss_pyramid_s0', 'loss_pyramid_s1', ..., 'loss_cross_s1', ...: scalars. Their sum is
            the training loss.

        Raises:
            ValueError: Embeddings that do not fit the layout, or unequal batches on the ranks.
        """
        self._check(embeddings)
        with torch.autocast(embeddings[0].device.type, enabled=False):
            embeddings = [z.float() for z in embeddings]
            for prototypes in self.prototypes:
                prototypes.normalize_()
            frozen = self.is_frozen
            scores = [c(z, frozen) for c, z in zip(self.prototypes, embeddings, strict=True)]
            codes = self._assign(scores)
            losses = self._terms(scores, codes)
        if self.training:
            self.assignments.note(scores, codes, self.num_iterations)
            self._advance(embeddings)
        return losses

    def _terms(self, scores: Sequence[Tensor], codes: Sequence[Tensor]) -> dict[str, Tensor]:
        """Compute Eq. 2 and 3 from scores (V, M_s, B, K_s) and codes of the assigned scales."""
        losses = {}
        frozen = self.is_frozen
        tau = self.temperature
        for s in self.assigned_scales:
            # (V, M_s, B, K_s) -> (V, M_s B, K_s). The mean over rows includes Eq. 2's 1 / M_s.
            term = swapped_prediction_loss(scores[s].flatten(1, 2), codes[s], temperature=tau)
            losses[f"loss_pyramid_s{s}"] = self.alpha[s] * term

        for s, learner in enumerate(self.correlation, start=1):
            learner.normalize_()
            cross_scores = learner(self._mean_prediction(scores[s]), frozen)
            all_pairs = self.variant == "released"
            term = cross_scale_loss(cross_scores, codes[0], temperature=tau, all_pairs=all_pairs)
            losses[f"loss_cross_s{s}"] = self.cross_weight * self.beta[s] * term
        return losses

    def examine(self) -> dict[str, Tensor]:
        """Return the scalars of ``AssignmentRecord``, with prototypes in use per epoch."""
        return self.assignments.examine(temperature=self.temperature, window=self._iters_per_epoch)

    def _mean_prediction(self, scores: Tensor) -> Tensor:
        """Compute mu(P_s): (2, M_s, B, K_s) -> (2, B, K_s)."""
        if self.variant == "paper":
            scores = log_softmax(scores, self.temperature).exp()
        return scores.mean(dim=1)

    @torch.no_grad()
    def _assign(self, scores: Sequence[Tensor]) -> list[Tensor]:
        """Return the codes (2, M_s B, K_s) of both pyramids for the ``assigned_scales``."""
        problems = []
        num_coded = []
        for s in self.assigned_scales:
            # (V, M_s, B, K_s) -> (2, M_s B, K_s). Small views come last and get no codes.
            rows = scores[s][:NUM_PYRAMIDS].flatten(1, 2)
            num_coded.append(rows.shape[1])  # rows of a queue need no codes
            if self.queue_takes_part(s):
                # Older embeddings, scored by the current prototypes: (2, M_s B + L, K_s).
                rows = torch.cat([rows, self.prototypes[s](self.queues[s].features)], dim=1)
            problems.append(rows)  # one assignment per pyramid

        return sinkhorn_jointly(
            problems, epsilon=self.epsilon, num_iters=self.num_iters, num_coded=num_coded
        )

    def queue_takes_part(self, scale: int) -> bool:
        """Whether the next step uses the queue of a scale."""
        queue = self.queues[scale]
        return queue is not None and queue.is_full and self.uses_queues

    def _advance(self, embeddings: Sequence[Tensor]) -> None:
        for queue, z in zip(self.queues, embeddings, strict=True):
            if queue is not None:
                # (V, M_s, B, D) -> (2, M_s B, D), as in the assignment.
                queue.push(z[:NUM_PYRAMIDS].flatten(1, 2))
        self.num_iterations += 1

    def _iterations(self, setting: str, epochs: int) -> int:
        return epochs and epochs * known_length(self._iters_per_epoch, f"{setting}={epochs}")

    def _check(self, embeddings: Sequence[Tensor]) -> None:
        got = [tuple(z.shape) for z in embeddings]
        views = self.layout
        expected = list(zip(views.views_per_scale, views.patches_per_scale, strict=True))
        if [shape[:2] for shape in got] != expected:
            raise UserValueError(
                f"SinkhornHead: (views, patches) per scale must be {expected}, "
                f"but the embeddings are {got}; the model's parts must share one layout."
            )

        if self.training and not self._batch_is_checked:
            ranks = dist.all_gather(torch.tensor([got[0][2]], device=embeddings[0].device))
            sizes = [int(size) for size in ranks]
            if len(set(sizes)) > 1:
                raise UserValueError(
                    f"SinkhornHead: every rank must have the same batch size, but got {sizes} "
                    "images; use mmengine's DefaultSampler and one batch_size for all ranks."
                )
            self._batch_is_checked = True

    def get_extra_state(self) -> Tensor:
        """Return the count as a tensor, the only type that mmengine's checkpoints accept."""
        return torch.tensor(self.num_iterations)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the count."""
        self.num_iterations = int(state)
