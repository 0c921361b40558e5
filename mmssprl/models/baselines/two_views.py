"""What methods have in common that compare the two views of a whole image."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import UserValueError
from ...functional import measure_views
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..protocol import PretrainingModel
from ..pyramid_model import crop_outputs


class TwoViewModel(PretrainingModel):
    """A backbone, a neck and a preprocessor for the two image views.

    ``loss`` keeps the step's embeddings in ``_embeddings``, from which ``examine`` reads.

    Args:
        layout: Image views, and as many small views as ``num_small`` allows; ``levels=[]``.
        backbone: The network that remains of the training, as in ``SSPRL``.
        neck: Config of the network behind it; its fields go before those of ``default_neck``.
        data_preprocessor: ``PyramidPreprocessor``, or what the method has in its place.
        init_cfg: Initialisation of the whole model, see mmengine.
    """

    default_neck: ClassVar[Mapping] = {}
    """Fields of the neck that a config need not name, such as its type."""
    num_small: ClassVar[Sequence[int]] = (0,)
    """Numbers of small views that the method accepts."""
    preprocessor_type: ClassVar[str] = "PyramidPreprocessor"
    transform_type: ClassVar[str] = "PyramidCrop"
    """What cuts the views."""
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
        self.check_views(views)
        kind = {"type": self.preprocessor_type, "layout": views}
        preprocessor = {**kind, **(data_preprocessor or {})}
        super().__init__(
            backbone=MODELS.build(dict(backbone)),
            neck=MODELS.build({**self.default_neck, **neck}),
            data_preprocessor=MODELS.build(preprocessor),
            init_cfg=init_cfg,
        )
        self.layout = views
        self.backbone.to(memory_format=torch.channels_last)
        self._embeddings: Sequence[Tensor] | None = None
        """The last step's unit vectors (N, D) of one view and of the other, without gradient."""

    @classmethod
    def check_views(cls, views: ViewLayout) -> None:
        """Raise ValueError unless the views are those that the method compares."""
        if views.levels or views.num_small not in cls.num_small:
            raise UserValueError(
                f"{cls.__name__}: the layout must have levels=[] and "
                f"num_small={' or '.join(map(str, cls.num_small))}, but got {len(views.levels)} "
                f"levels and num_small={views.num_small}; change model.layout."
            )

    def _require(self, field: str, value: float, is_valid: bool, rule: str) -> None:
        """Raise ValueError with the name and value of an argument that breaks its rule."""
        if not is_valid:
            raise UserValueError(f"{type(self).__name__}: {field} must be {rule}, but got {value}.")

    def _boxes_in(self, data_samples: Any) -> Tensor:
        """Return the boxes of the views; ValueError if there are none."""
        if data_samples is None or "boxes" not in data_samples:
            raise UserValueError(
                f"{type(self).__name__} needs boxes with its views, but got none; set "
                f"type='{self.transform_type}' in train_dataloader.dataset.pipeline and "
                f"model.data_preprocessor.type='{self.preprocessor_type}'."
            )
        return data_samples["boxes"]

    @abstractmethod
    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the loss terms by name from one tensor (2, B, 3, px, px), B images per rank.

        In training mode it updates queues and averages.
        """

    def examine(self) -> dict[str, Tensor]:
        """Return ``measure_views`` of the embeddings of the two views."""
        return {} if self._embeddings is None else measure_views(*self._embeddings)


def last_map(backbone: Any, views: Tensor, method: str) -> Tensor:
    """Run a backbone on views (B, 3, px, px): its last map (B, C, h, w), or a ValueError."""
    last: Tensor = crop_outputs(backbone, views[None])[-1]
    if last.dim() != 4:
        raise UserValueError(
            f"{method}: the backbone's last output must be a map (N, C, h, w), but got "
            f"{tuple(last.shape)}; for a ViT set out_type='featmap'."
        )
    return last


def unit(embeddings: Tensor) -> Tensor:
    """Scale (N, D, ...) to unit norm over D, at least in float32 whatever the autocast state."""
    dtype = torch.promote_types(embeddings.dtype, torch.float32)
    return F.normalize(embeddings.to(dtype), dim=1)
