"""SS-PRL: one backbone, and a projection head and a set of prototypes per scale.

Legend: N_g crops per image in resolution group g, B images per rank, V views, P patches per
view, C features.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from torch import Tensor
from torch.nn import functional as F

from ..pyramid import ViewLayout
from ..registry import MODELS
from .protocol import VIEW_PANELS, HealthPanel, LossTerm
from .pyramid_model import PyramidModel, compiled, crop_features
from .sinkhorn_head import SinkhornHead
from .training_size import TrainingSize, round_within

LEAST_PROTOTYPES = 30  # as used for 1,200 scenes of 24 categories
IMAGES_PER_PROTOTYPE = 30  # in short runs; photographs were trained with 37 to 75
MOST_FROZEN_PERCENT = 1  # of the steps; the released recipe freezes one epoch
_JITTER = ("brightness", "contrast", "saturation", "hue")


@MODELS.register_module()
class SSPRL(PyramidModel):
    """Self-Supervised Pyramid Representation Learning (WACV 2023, arXiv:2208.14439).

    Args:
        layout: The views of both pyramids. The model passes it to its preprocessor, neck and head,
            and the commands pass it to ``PyramidCrop``.
        backbone: Any mmpretrain backbone. Its last output is a feature map, which is pooled, or
            one vector per image (for ViT set ``out_type='avg_featmap'`` or ``'cls_token'``).
        neck: ``MultiHeadNeck``.
        head: ``SinkhornHead``.
        data_preprocessor: ``PyramidPreprocessor``.
        num_chunks: Number of equal parts, a divisor of B, in which the backbone processes a
            training batch. Only the activations of one part are in memory, at the cost of one
            more forward pass of the backbone. Neck, head, assignment, queues and update see the
            whole batch. Losses and gradients do not change, except through BatchNorm in the
            backbone: all crops of an image are in the same part, and each part has the statistics
            of its B / ``num_chunks`` images, as in a process of that batch size.
        compile_backbone: Whether to run the backbone through torch.compile. It compiles once per
            view size and mode, which takes minutes. Weights and their names do not change.
        init_cfg: Initialisation of the whole model, see mmengine.

    Raises:
        ValueError: ``num_chunks < 1``.
    """

    anchored_form: ClassVar[str | None] = "AnchoredSSPRL"
    data_fields = SinkhornHead.data_fields
    health_panels: ClassVar[Sequence[HealthPanel]] = (
        *VIEW_PANELS,
        HealthPanel("share of the prototypes in use", r"prototypes_in_use_s\d+"),
        HealthPanel("code perplexity / K", r"code_perplexity_s\d+"),
    )

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        head: Mapping,
        data_preprocessor: Mapping | None = None,
        num_chunks: int = 1,
        compile_backbone: bool = False,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(layout, backbone, neck, data_preprocessor, num_chunks, init_cfg, head=head)
        self.compile_backbone = compile_backbone

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return prototypes; in a long run also queues and freezing, and what AdamW needs."""
        if size.is_short:
            return _prototypes_of_short_runs(cfg.model.head, size.num_images)
        values = _head_of_long_runs(cfg, size)
        if size.short_form is not None:
            adamw = size.short_form.model
            values["model.head.epsilon"] = adamw.head.epsilon
            for name in _JITTER:
                values[f"model.data_preprocessor.{name}"] = adamw.data_preprocessor[name]
        return values

    def extract_feat(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the backbone once per resolution group; with gradients, once per chunk of it.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.

        Returns:
            Pooled features, one tensor per scale: (V_0, 1, B, C), then (2, M_s, B, C).

        Raises:
            ValueError: B is not a multiple of ``num_chunks``.
        """
        run = compiled(crop_features) if self.compile_backbone else crop_features
        return self.layout.split([self.in_chunks(run, crops) for crops in inputs])

    def loss(self, inputs: Sequence[Tensor], data_samples: None = None) -> dict[str, Tensor]:
        """Compute the weighted loss terms of ``SinkhornHead.loss``. Their sum is Eq. 4."""
        return self.loss_of_features(self.extract_feat(inputs))

    def loss_of_features(self, features: Sequence[Tensor]) -> dict[str, Tensor]:
        """Compute the loss terms from the features of ``extract_feat``."""
        embeddings = self.neck(features)
        self.keep_views(embeddings)
        return self.head.loss(embeddings)

    def on_epoch_length(self, num_iters: int) -> None:
        """Pass the iterations per epoch to the head, which has settings in epochs."""
        self.head.set_epoch_length(num_iters)

    def fill_queues(self) -> None:
        """Fill the head's queues with random embeddings, and use them."""
        self.head.queue_start_epoch = 0
        generator = torch.Generator().manual_seed(0)  # leaves the global generator unchanged
        for queue in filter(None, self.head.queues):
            rows = torch.randn(queue.features.shape, generator=generator)
            queue.push(F.normalize(rows, dim=-1))

    def before_checkpoint(self) -> None:
        """Gather the queues of all ranks."""
        for queue in filter(None, self.head.queues):
            queue.gather_ranks()

    def after_checkpoint(self) -> None:
        """Free the gathered queues."""
        for queue in filter(None, self.head.queues):
            queue.release_ranks()

    def checkpoint_bytes(self, num_ranks: int) -> int:
        """Return the size, including the queues of all ranks."""
        num_bytes = super().checkpoint_bytes(num_ranks)
        if num_ranks > 1:
            queues = filter(None, self.head.queues)
            num_bytes += num_ranks * sum(queue.features.nbytes for queue in queues)
        return num_bytes

    def health(self) -> dict[str, float | Tensor]:
        """Return the following scalars, where they apply.

        'embedding_spread': spread of the image views' embeddings, see ``functional.health``.
        'frozen': 1 while prototypes are frozen, else 0.
        'queue_fill': share of the queues' rows that hold embeddings.
        'queues_in_use': share of the queues that take part in the assignment.
        """
        head = self.head
        head.assignments.mark_use()
        health = super().health()
        if head.freeze_epochs or head.freeze_iters:
            health["frozen"] = float(head.is_frozen)
        queues = {scale: queue for scale, queue in enumerate(head.queues) if queue is not None}
        if queues:
            num_filled = sum(queue.num_filled for queue in queues.values())
            health["queue_fill"] = num_filled / sum(queue.length for queue in queues.values())
            health["queues_in_use"] = sum(map(head.queue_takes_part, queues)) / len(queues)
        return health

    def examine(self) -> dict[str, Tensor]:
        """Return ``measure_views`` of the image views, and the scalars of the head."""
        views = super().examine()
        return {**views, **self.head.examine()} if views else {}

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms of L_pyr and L_cross with a weight above 0."""
        head = self.head
        terms = {}
        counts = [len(prototypes.weight) for prototypes in head.prototypes]
        for s, count in enumerate(counts):
            terms[f"loss_pyramid_s{s}"] = LossTerm("L_{pyr}", s, head.alpha[s], count)
            beta = head.cross_weight * head.beta[s]
            # All scales predict the codes of the whole image.
            terms[f"loss_cross_s{s}"] = LossTerm("L_{cross}", s, beta, counts[0])
        return {name: term for name, term in terms.items() if term.weight > 0}


def _prototypes_of_short_runs(head: Mapping[str, Any], num_images: int) -> dict[str, Any]:
    """Return numbers of prototypes, at most as many as the head has."""
    wanted = num_images / IMAGES_PER_PROTOTYPE
    return {
        f"model.head.{name}": round_within(wanted, (LEAST_PROTOTYPES, head[name]))
        for name in ("num_prototypes", "num_patch_prototypes")
        if name in head
    }


def _head_of_long_runs(cfg: Config, size: TrainingSize) -> dict[str, Any]:
    """Return prototypes, queues and freezing, scaled by the share of the images."""
    head = cfg.model.head
    values: dict[str, Any] = {}
    lengths = []
    for scale, num_patches in enumerate(ViewLayout.build(size.layout).patches_per_scale):
        part = "patch_" if scale else ""
        own = head[f"num_{part}prototypes"]
        num_prototypes = round_within(own * size.data_share, (LEAST_PROTOTYPES, own))
        values[f"model.head.num_{part}prototypes"] = num_prototypes
        # Of all devices of the published training, then of each device here.
        queued = head[f"{part}queue_length"] * cfg.num_gpus * num_prototypes / own
        length = int(queued / size.num_devices)
        is_useful = length >= num_patches * size.batch_size
        lengths.append(length if is_useful else 0)

    start = math.ceil(size.epochs * head.queue_start_epoch / cfg.train_cfg.max_epochs)
    if size.step_images < cfg.auto_scale_lr.base_batch_size:
        start = min(start, 1)
    return {
        **values,
        "model.head.queue_length": lengths[0],
        "model.head.patch_queue_length": lengths[1:],
        "model.head.queue_start_epoch": start,
        "model.head.freeze_epochs": 0,
        "model.head.freeze_iters": min(
            size.steps_per_epoch, size.num_steps * MOST_FROZEN_PERCENT // 100
        ),
    }
