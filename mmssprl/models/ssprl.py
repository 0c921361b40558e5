"""SS-PRL: one backbone, one projection head and one set of prototypes per scale.

Legend: N_g crops per image in resolution group g, B images per rank, V views, P patches per
view, C features.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from mmpretrain.models import BaseSelfSupervisor
from torch import Tensor, nn

from ..errors import UserValueError
from ..pyramid import ViewLayout
from ..registry import MODELS
from .recomputation import recomputed_in_chunks

_COMPILED_VARIANTS = 64
"""One for each view size and mode. Four sizes in training and evaluation reach torch's own limit of
8, beyond which a network runs uncompiled."""


@MODELS.register_module()
class SSPRL(BaseSelfSupervisor):
    """Self-Supervised Pyramid Representation Learning (WACV 2023, arXiv:2208.14439).

    Args:
        layout: The views of both pyramids; handed to the preprocessor, the neck and the head.
            Give ``PyramidCrop`` of the data pipeline the same.
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
        if not isinstance(num_chunks, int) or num_chunks < 1:
            raise UserValueError(
                f"SSPRL: num_chunks must be an integer >= 1, but got {num_chunks!r}."
            )
        views = ViewLayout.build(layout)

        def build(cfg: Mapping) -> Any:
            return MODELS.build({"layout": views, **cfg})

        super().__init__(
            backbone=MODELS.build(dict(backbone)),
            neck=build(neck),
            head=build(head),
            data_preprocessor=build({"type": "PyramidPreprocessor", **(data_preprocessor or {})}),
            init_cfg=init_cfg,
        )
        self.layout = views
        self.num_chunks = num_chunks
        self.compile_backbone = compile_backbone
        # A quarter faster on a CPU, and what tensor cores want on a GPU; values do not change.
        self.backbone.to(memory_format=torch.channels_last)

    def extract_feat(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the backbone once per resolution group, or ``num_chunks`` times with gradients.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.

        Returns:
            Pooled features, one tensor per scale: (V_0, 1, B, C), then (2, M_s, B, C).

        Raises:
            ValueError: B is no multiple of ``num_chunks``.
        """
        run = _compiled_features() if self.compile_backbone else crop_features
        if self.num_chunks == 1 or not torch.is_grad_enabled():
            return self.layout.split([run(self.backbone, crops) for crops in inputs])
        batch = inputs[0].shape[1]
        if batch % self.num_chunks:
            raise UserValueError(
                f"SSPRL: the images per process must be a multiple of num_chunks="
                f"{self.num_chunks}, but got {batch}; change train_dataloader.batch_size."
            )
        return self.layout.split(
            [
                recomputed_in_chunks(run, self.backbone, crops, self.num_chunks, dim=1)
                for crops in inputs
            ]
        )

    def loss(self, inputs: Sequence[Tensor], data_samples: None = None) -> dict[str, Tensor]:
        """Compute the weighted loss terms of ``SinkhornHead.loss``; their sum is Eq. 4."""
        return self.head.loss(self.neck(self.extract_feat(inputs)))


def crop_features(backbone: nn.Module, crops: Tensor) -> Tensor:
    """Run a backbone on crops (N_g, B, 3, px, px) and pool: features (N_g, B, C)."""
    # Flattened with the channel last: no copy of what the preprocessor has laid out like this, and
    # one of a part of it.
    images = crops.movedim(2, -1).flatten(0, 1).movedim(-1, 1)
    images = images.contiguous(memory_format=torch.channels_last)
    return pool(backbone(images)).unflatten(0, crops.shape[:2])


@functools.cache
def _compiled_features() -> Callable[[nn.Module, Tensor], Tensor]:
    # A function, not a module: it is no part of any model, its state dict or its copies.
    config = torch._dynamo.config
    config.cache_size_limit = max(config.cache_size_limit, _COMPILED_VARIANTS)
    # Otherwise a graph keeps the buffers it was made with, and recomputed chunks would move the
    # running statistics twice. False in torch 2.4, and other packages may set it so.
    config.inline_inbuilt_nn_modules = True
    return torch.compile(crop_features, dynamic=False)


def pool(outputs: Sequence[Tensor] | Tensor) -> Tensor:
    """Global average pool of a backbone's last output.

    Args:
        outputs: A backbone's outputs; the last is (N, C, H, W) or already (N, C).

    Returns:
        Features (N, C).

    Raises:
        ValueError: An output of another rank, such as the tokens (N, L, C) of a transformer.
    """
    last = outputs if isinstance(outputs, Tensor) else outputs[-1]
    if last.dim() == 4:
        return last.mean(dim=(2, 3))
    if last.dim() != 2:
        raise UserValueError(
            "the backbone's last output must be (N, C, H, W) or (N, C), "
            f"but got {tuple(last.shape)}; for a ViT set out_type='avg_featmap' or 'cls_token'."
        )
    return last
