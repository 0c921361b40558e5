"""BYOL: predict what a slowly moving copy of the network makes of the image's other view.

Legend: B images per rank, C features, D embedding size, t steps from 0, T steps of the training.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...errors import UserRuntimeError, UserValueError
from ...functional import embedding_spread, prediction_loss
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..momentum_encoder import MomentumEncoder, target_momentum
from ..protocol import LossTerm
from ..pyramid_model import crop_features
from .two_views import TwoViewModel, unit


@MODELS.register_module()
class BYOL(TwoViewModel):
    """Bootstrap Your Own Latent (arXiv:2006.07733).

    p_v = g(h(pool f(x_v))) and y_v = h'(pool f'(x_v)) without gradient; see ``prediction_loss``.
    After step t, f' and h' follow: p' <- m_t p' + (1 - m_t) p; see ``target_momentum``. BatchNorm
    sees one view at a time.

    The update of step t is made when step t + 1 begins, which no loss can tell from the paper's
    order; a checkpoint holds the target as step t has used it.

    Args:
        layout, backbone, data_preprocessor, init_cfg: As in ``TwoViewModel``; f is the backbone.
        neck: h: ``in_channels`` C, ``hid_channels`` and ``out_channels`` D; other fields of
            mmpretrain's ``NonLinearNeck`` have the published values. Published: 2048, 4096, 256.
            The predictor g is built alike, from D to D.
        base_momentum: m_0 in [0, 1); mmpretrain's is 1 - m_0. Published for 100 epochs: 0.99.

    Raises:
        ValueError: ``base_momentum`` out of its range, or other views.
    """

    # Linear, BatchNorm, ReLU, Linear: a bias in the first, none in the last.
    default_neck: ClassVar[Mapping] = {
        "type": "NonLinearNeck",
        "num_layers": 2,
        "with_bias": True,
        "with_last_bn": False,
        "with_avg_pool": False,
        "norm_cfg": {"type": "BN1d"},
    }

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
        """m_t of the last step t.

        Raises:
            RuntimeError: The length of the training is not known.
        """
        if self._training_length is None:
            raise UserRuntimeError(
                "BYOL: the schedule of the momentum needs the length of the training; "
                "add dict(type='PretrainHook') to custom_hooks."
            )
        last_step = max(0, self.target.num_updates - 1)
        return target_momentum(self.base_momentum, last_step / self._training_length)

    def extract_feat(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the backbone on one tensor (2, B, 3, px, px): pooled features (B, C) of each view."""
        return _each_view(self.backbone, inputs[0])

    def loss(self, inputs: Sequence[Tensor], data_samples: None = None) -> dict[str, Tensor]:
        """Compute the loss. In training the target is first updated for the previous step."""
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
        # Past its length the momentum is 1, and the target would never move again.
        if self._training_length is not None and self.target.num_updates >= self._training_length:
            raise UserRuntimeError(
                f"BYOL: a training of {self._training_length} updates cannot resume from a "
                f"checkpoint after {self.target.num_updates}; resume with more epochs, or start "
                "from the backbone's weights alone."
            )

    def on_training_length(self, num_iters: int) -> None:
        """Set T, the iterations over which the momentum rises to 1."""
        self._training_length = num_iters

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Check that BatchNorm sees at least two images per step."""
        smallest = last_batch_size or batch_size
        if smallest < 2:
            raise UserValueError(
                "BYOL: each step needs two images per process or more, for BatchNorm, but got "
                f"{smallest}; raise train_dataloader.batch_size or set drop_last=True there."
            )

    def health(self) -> dict[str, float | Tensor]:
        """Return 'embedding_spread' and 'target_momentum', m_t of this step."""
        health: dict[str, float | Tensor] = {"target_momentum": self.momentum}
        if self._embeddings is not None:
            health["embedding_spread"] = embedding_spread(torch.cat(list(self._embeddings)))
        return health

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the one term."""
        return {"loss_prediction": LossTerm("L_{pred}", 0, 1.0, unrelated=4.0)}


def _each_view(backbone: nn.Module, views: Tensor) -> list[Tensor]:
    # One view at a time: together they would share batch statistics.
    return [crop_features(backbone, view[None])[0] for view in views]
