"""SS-PRL: one backbone, one projection head and one set of prototypes per scale.

Legend: N_g crops per image in resolution group g, B images per rank, V views, P patches per
view, C features.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..functional import embedding_spread, measure_views
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .protocol import LossTerm
from .pyramid_model import PyramidModel, compiled, crop_features


@MODELS.register_module()
class SSPRL(PyramidModel):
    """Self-Supervised Pyramid Representation Learning (WACV 2023, arXiv:2208.14439).

    Args:
        layout: The views of both pyramids; handed to the preprocessor, the neck and the head, and
            by the commands to ``PyramidCrop``.
        backbone: Any mmpretrain backbone whose last output is a feature map (pooled here) or one
            vector per image (for ViT set ``out_type='avg_featmap'`` or ``'cls_token'``).
        neck: ``MultiHeadNeck``.
        head: ``SinkhornHead``.
        data_preprocessor: ``PyramidPreprocessor``.
        num_chunks: Parts in which a training step runs a batch through the backbone, a divisor of
            B. Only one part's activations are in memory at a time, for one more forward pass of
            the backbone. Neck, head, assignment, queues and update see the whole batch. Losses
            and gradients are those of one part but for BatchNorm in the backbone: all crops of an
            image are in one part, and each part has the statistics of its B / ``num_chunks``
            images, as in a process of that batch size.
        compile_backbone: Run the backbone through torch.compile, which compiles it once per view
            size and mode, in minutes. Weights and their names do not change.
        init_cfg: Initialisation of the whole model, see mmengine.

    Raises:
        ValueError: ``num_chunks < 1``.
    """

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
        self._views: Tensor | None = None  # (2, B, D), embeddings of the last step's image views

    def extract_feat(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the backbone once per resolution group, or ``num_chunks`` times with gradients.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.

        Returns:
            Pooled features, one tensor per scale: (V_0, 1, B, C), then (2, M_s, B, C).

        Raises:
            ValueError: B is no multiple of ``num_chunks``.
        """
        run = compiled(crop_features) if self.compile_backbone else crop_features
        return self.layout.split([self.in_chunks(run, crops) for crops in inputs])

    def loss(self, inputs: Sequence[Tensor], data_samples: None = None) -> dict[str, Tensor]:
        """Compute the weighted loss terms of ``SinkhornHead.loss``; their sum is Eq. 4."""
        return self.loss_of_features(self.extract_feat(inputs))

    def loss_of_features(self, features: Sequence[Tensor]) -> dict[str, Tensor]:
        """Compute the terms of the loss from what ``extract_feat`` returns."""
        embeddings = self.neck(features)
        # (V_0, 1, B, D) -> (2, B, D): small views alone would widen the spread.
        self._views = embeddings[0][:NUM_PYRAMIDS].detach().flatten(1, 2)
        return self.head.loss(embeddings)

    def on_epoch_length(self, num_iters: int) -> None:
        """Pass the number to the head, which has settings in epochs."""
        self.head.set_epoch_length(num_iters)

    def fill_queues(self) -> None:
        """Fill the head's queues with random embeddings, and use them."""
        self.head.queue_start_epoch = 0
        generator = torch.Generator().manual_seed(0)  # no step draws other numbers for it
        for queue in filter(None, self.head.queues):
            rows = torch.randn(queue.features.shape, generator=generator)
            queue.push(F.normalize(rows, dim=-1))

    def before_checkpoint(self) -> None:
        """Gather the queues of all ranks."""
        for queue in filter(None, self.head.queues):
            queue.gather_ranks()

    def after_checkpoint(self) -> None:
        """Free the queues of the other ranks."""
        for queue in filter(None, self.head.queues):
            queue.release_ranks()

    def checkpoint_bytes(self, num_ranks: int) -> int:
        """Return the size with the queues of all ranks, which a checkpoint holds."""
        num_bytes = super().checkpoint_bytes(num_ranks)
        if num_ranks > 1:
            queues = filter(None, self.head.queues)
            num_bytes += num_ranks * sum(queue.features.nbytes for queue in queues)
        return num_bytes

    def health(self) -> dict[str, float | Tensor]:
        """Return 'embedding_spread', and of 'frozen', 'queue_fill', 'queues_in_use' what applies.

        The spread of the image views' embeddings, see ``functional.health``; 1 as long as
        prototypes do not change; the share of the queues' rows that hold embeddings; the share of
        the queues that take part in the assignment.
        """
        head = self.head
        head.assignments.mark_use()
        health: dict[str, float | Tensor] = {}
        if self._views is not None:
            health["embedding_spread"] = embedding_spread(self._views.flatten(0, 1))
        if head.freeze_epochs or head.freeze_iters:
            health["frozen"] = float(head.is_frozen)
        queues = {scale: queue for scale, queue in enumerate(head.queues) if queue is not None}
        if queues:
            num_filled = sum(queue.num_filled for queue in queues.values())
            health["queue_fill"] = num_filled / sum(queue.length for queue in queues.values())
            health["queues_in_use"] = sum(map(head.queue_takes_part, queues)) / len(queues)
        return health

    def examine(self) -> dict[str, Tensor]:
        """Return ``measure_views`` of the image views, and the head's ``examine``."""
        if self._views is None:
            return {}
        return {**measure_views(*self._views), **self.head.examine()}

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms of L_pyr and L_cross whose weight is not zero."""
        head, terms = self.head, {}
        counts = [len(prototypes.weight) for prototypes in head.prototypes]
        for s, count in enumerate(counts):
            alpha, beta = head.alpha[s], head.cross_weight * head.beta[s]
            terms[f"loss_pyramid_s{s}"] = LossTerm("L_{pyr}", s, alpha, count)
            # All scales predict the codes of the whole image.
            terms[f"loss_cross_s{s}"] = LossTerm("L_{cross}", s, beta, counts[0])
        return {name: term for name, term in terms.items() if term.weight > 0}
