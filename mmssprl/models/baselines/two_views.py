"""Base of the methods that compare two views of a whole image.

Legend: B images per rank, N rows, C features, D embedding size, px side of a view.
"""

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
    """A backbone, a neck and a preprocessor for two image views.

    ``loss`` stores the embeddings of the step in ``_embeddings`` for ``examine``.

    Args:
        layout: Two image views (``levels=[]``). ``num_small`` must be one that the method accepts.
        backbone: The network to pre-train, as in ``SSPRL``.
        neck: Config of the projection; overrides the fields of ``default_neck``. If the method
            ``needs`` stages, it has the argument ``num_levels``.
        data_preprocessor: Config of the preprocessor; its default type is ``preprocessor_type``.
        init_cfg: Initialisation of the whole model, see mmengine.
    """

    default_neck: ClassVar[Mapping] = {}
    """Default fields of the neck, such as its type."""
    num_small: ClassVar[Sequence[int]] = (0,)
    """Numbers of small views that the method accepts."""
    preprocessor_type: ClassVar[str] = "PyramidPreprocessor"
    transform_type: ClassVar[str] = "PyramidCrop"
    """Transform that cuts the views."""
    least_images: ClassVar[tuple[str, int]] = "one image per process", 1
    """Smallest batch per process, in words and as a number."""
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
        if self.needs == "stages":
            num_levels = backbone.get("num_stages", 4)
            backbone = {**backbone, "out_indices": tuple(range(num_levels))}
            neck = {**neck, "num_levels": num_levels}
        super().__init__(
            backbone=MODELS.build(dict(backbone)),
            neck=MODELS.build({**self.default_neck, **neck}),
            data_preprocessor=MODELS.build(preprocessor),
            init_cfg=init_cfg,
        )
        self.layout = views
        self.backbone.to(memory_format=torch.channels_last)
        self._embeddings: Sequence[Tensor] | None = None
        """Unit vectors (N, D) of both views in the last step, without gradient."""

    @classmethod
    def check_views(cls, views: ViewLayout) -> None:
        """Raise ValueError if the method cannot use this layout."""
        if views.levels or views.num_small not in cls.num_small:
            raise UserValueError(
                f"{cls.__name__}: the layout must have levels=[] and "
                f"num_small={' or '.join(map(str, cls.num_small))}, but got {len(views.levels)} "
                f"levels and num_small={views.num_small}; change model.layout."
            )

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Check that every batch has enough images."""
        words, least = self.least_images
        smallest = last_batch_size or batch_size
        if smallest < least:
            raise UserValueError(
                f"{type(self).__name__}: each step needs {words}, but got {smallest}; raise "
                "train_dataloader.batch_size or set drop_last=True there."
            )

    def _require(self, field: str, value: object, is_valid: bool, rule: str) -> None:
        """Raise ValueError, with name and value, if an argument is not valid."""
        if not is_valid:
            raise UserValueError(f"{type(self).__name__}: {field} must be {rule}, but got {value}.")

    def _boxes_in(self, data_samples: Any) -> Tensor:
        """Return the boxes of the views; raise ValueError if there are none."""
        if data_samples is None or "boxes" not in data_samples:
            raise UserValueError(
                f"{type(self).__name__} needs boxes with its views, but got none; set "
                f"type='{self.transform_type}' in train_dataloader.dataset.pipeline and "
                f"model.data_preprocessor.type='{self.preprocessor_type}'."
            )
        return data_samples["boxes"]

    def _last_map(self, backbone: Any, views: Tensor, *rest: Tensor) -> Tensor:
        """(B, 3, px, px) -> the last map (B, C, h, w); ValueError if the output is no map."""
        last: Tensor = crop_outputs(backbone, views[None])[-1]
        if last.dim() != 4:
            raise UserValueError(
                f"{type(self).__name__}: the backbone's last output must be a map (N, C, h, w), "
                f"but got {tuple(last.shape)}; for a ViT set out_type='featmap'."
            )
        return last

    def examine(self) -> dict[str, Tensor]:
        """Return ``measure_views`` of the embeddings of the two views."""
        return {} if self._embeddings is None else measure_views(*self._embeddings)


def unit(embeddings: Tensor) -> Tensor:
    """Normalise (N, D, ...) over D, in float32 or better even under autocast."""
    dtype = torch.promote_types(embeddings.dtype, torch.float32)
    return F.normalize(embeddings.to(dtype), dim=1)
