"""BYOL: predict the projection that a slowly moving copy of the network makes of the other view.

Legend: B images per rank, C features, D embedding size, t step from 0, T steps of the training.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ...errors import UserRuntimeError
from ...functional import embedding_spread, prediction_loss
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..momentum_encoder import MomentumEncoder, momentum_for, target_momentum
from ..protocol import LossTerm, known_length
from ..pyramid_model import crop_features
from ..training_size import TrainingSize
from .two_views import TwoViewModel, unit


@MODELS.register_module()
class BYOL(TwoViewModel):
    """Bootstrap Your Own Latent (arXiv:2006.07733).

    p_v = g(h(pool f(x_v))) and y_v = h'(pool f'(x_v)) without gradient; see ``prediction_loss``.
    After step t the target follows: p' <- m_t p' + (1 - m_t) p for the parameters of f' and h'; see
    ``target_momentum``. BatchNorm sees one view at a time.

    The update after step t runs at the start of step t + 1. The losses are the same as in the
    paper's order. A checkpoint holds the target that step t used.

    Args:
        layout, backbone, data_preprocessor, init_cfg: As in ``TwoViewModel``; f is the backbone.
        neck: h: ``in_channels`` C, ``hid_channels`` and ``out_channels`` D. Published: 2048, 4096,
            256. Other fields of mmpretrain's ``NonLinearNeck`` default to the published values.
            The predictor g has the same layers, from D to D.
        base_momentum: m_0 in [0, 1); mmpretrain counts 1 - m_0. Published for 100 epochs: 0.99.

    Raises:
        ValueError: ``base_momentum`` is out of range, or the layout has other views.
    """

    # Linear, BatchNorm, ReLU, Linear. Only the first Linear has a bias.
    default_neck: ClassVar[Mapping] = {
        "type": "NonLinearNeck",
        "num_layers": 2,
        "with_bias": True,
        "with_last_bn": False,
        "with_avg_pool": False,
        "norm_cfg": {"type": "BN1d"},
    }
    least_images = "two images per process or more, for BatchNorm", 2
    largest_momentum: ClassVar[float] = 0.996  # published for 300 epochs and more

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        base_momentum: float = 0.99,
        data_preprocessor: Mapping | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(layout, backbone, neck, data_preprocessor, init_cfg)
        self._require("base_momentum", base_momentum, 0 <= base_momentum < 1, "in [0, 1)")
        predictor = {**self.default_neck, **neck, "in_channels": neck["out_channels"]}
        self.predictor = MODELS.build(predictor)
        self.base_momentum = base_momentum
        self.target = MomentumEncoder(self.backbone, self.neck)
        self._training_length: int | None = None

    @property
    def momentum(self) -> float:
        """m_t of the last step t."""
        num_steps = known_length(self._training_length, "BYOL's momentum")
        last_step = max(0, self.target.num_updates - 1)
        return target_momentum(self.base_momentum, last_step / num_steps)

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return the momentum, which follows the length of the training."""
        largest = cls.largest_momentum if size.is_short else cfg.model.base_momentum
        return {"model.base_momentum": momentum_for(size.num_steps, largest)}

    def extract_feat(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the backbone on one tensor (2, B, 3, px, px): pooled features (B, C) per view."""
        return _each_view(self.backbone, inputs[0])

    def loss(self, inputs: Sequence[Tensor], data_samples: None = None) -> dict[str, Tensor]:
        """Compute the loss. In training, update the target for the previous step first."""
        if self.training:
            self._refuse_another_training()
            self.target.update(self.momentum)
        target_backbone, target_neck = self.target.copies
        features = self.extract_feat(inputs)
        with torch.no_grad():
            target_features = _each_view(target_backbone, inputs[0])
        embeddings = [self.neck((f,))[0] for f in features]
        predictions = [self.predictor((z,))[0] for z in embeddings]
        with torch.no_grad():
            targets = [target_neck((f,))[0] for f in target_features]
        self._embeddings = [unit(z.detach()) for z in embeddings]
        return {"loss_prediction": prediction_loss(predictions, targets)}

    def _refuse_another_training(self) -> None:
        # After T steps the momentum is 1, so the target would never move again.
        if self._training_length is not None and self.target.num_updates >= self._training_length:
            raise UserRuntimeError(
                f"BYOL: a training of {self._training_length} updates cannot resume from a "
                f"checkpoint after {self.target.num_updates}; resume with more epochs, or start "
                "from the backbone's weights alone."
            )

    def on_training_length(self, num_iters: int) -> None:
        """Set T, the iterations over which the momentum rises to 1."""
        self._training_length = num_iters

    def health(self) -> dict[str, float | Tensor]:
        """Return 'embedding_spread' and 'target_momentum', the m_t of this step."""
        health: dict[str, float | Tensor] = {"target_momentum": self.momentum}
        if self._embeddings is not None:
            health["embedding_spread"] = embedding_spread(torch.cat(list(self._embeddings)))
        return health

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the only term."""
        return {"loss_prediction": LossTerm("L_{pred}", 0, 1.0, unrelated=4.0)}


def _each_view(backbone: nn.Module, views: Tensor) -> list[Tensor]:
    # One view at a time, because both together would share batch statistics.
    return [crop_features(backbone, view[None])[0] for view in views]
