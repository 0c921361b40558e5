"""What methods have in common that compare the two views of a whole image."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import UserValueError
from ...functional import measure_views
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..protocol import PretrainingModel


class TwoViewModel(PretrainingModel):
    """A backbone, a neck and a preprocessor for the two image views.

    ``loss`` keeps the step's embeddings in ``_embeddings``, from which ``examine`` reads.

    Args:
        layout: Image views alone: ``levels=[]`` and ``num_small=0``.
        backbone: The network that remains of the training, as in ``SSPRL``.
        neck: Config of the network behind it, with its type.
        data_preprocessor: ``PyramidPreprocessor``.
        init_cfg: Initialisation of the whole model, see mmengine.

    Raises:
        ValueError: The layout has other views, too, which the method would leave unused.
    """

    layout: ViewLayout
    neck: Any  # nn.Module

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        data_preprocessor: Mapping | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        views = ViewLayout.build(layout)
        if views.levels or views.num_small:
            raise UserValueError(
                f"{type(self).__name__}: the layout must have levels=[] and num_small=0, but got "
                f"{len(views.levels)} levels and num_small={views.num_small}; the method compares "
                "the two image views alone."
            )
        preprocessor = {"type": "PyramidPreprocessor", "layout": views, **(data_preprocessor or {})}
        super().__init__(
            backbone=MODELS.build(dict(backbone)),
            neck=MODELS.build(dict(neck)),
            data_preprocessor=MODELS.build(preprocessor),
            init_cfg=init_cfg,
        )
        self.layout = views
        self.backbone.to(memory_format=torch.channels_last)
        self._embeddings: Sequence[Tensor] | None = None
        """Of the last step: (N, D) of one view and of the other, unit vectors without gradient."""

    def examine(self) -> dict[str, Tensor]:
        """Return what ``measure_views`` says of the embeddings of the two views."""
        return {} if self._embeddings is None else measure_views(*self._embeddings)


def unit(embeddings: Tensor) -> Tensor:
    """Scale (N, D, ...) to unit norm over D, at least in float32 whatever the autocast state."""
    dtype = torch.promote_types(embeddings.dtype, torch.float32)
    return F.normalize(embeddings.to(dtype), dim=1)
