"""What every pre-training model answers; hooks, checks, profiling, pictures and export ask it here.

A new method is one file beside this one: a registered class that extends ``PretrainingModel``.
Everything but ``loss`` has a default, which is right for a method without queues and epochs of its
own. A method that can be compiled takes ``compile_backbone``, one that can divide its batch takes
``num_chunks``: the command line sets these fields of the config by name.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mmengine.config import Config
from mmpretrain.models import BaseSelfSupervisor
from torch import Tensor

from ..pyramid import ViewLayout
from ..registry import MODELS


class LossTerm(NamedTuple):
    """How one term of the loss is drawn.

    Attributes:
        symbol: TeX of what the term belongs to; terms with one symbol share a row of panels.
        scale: 0 is the image, s >= 1 a patch level; the panel's column.
        weight: > 0; the logged value is divided by it.
        classes: TeX of the number of classes that the term chooses among, such as ``K_0``.
        num_classes: That number K: a prediction that has learned nothing reads ln K. None where no
            value tells this.
    """

    symbol: str
    scale: int
    weight: float
    classes: str = ""
    num_classes: int | None = None


class PretrainingModel(BaseSelfSupervisor):
    """A model whose ``backbone`` is what remains of its training.

    ``loss(inputs, data_samples)`` returns the terms of the loss by name, whose sum is trained on.
    Names begin with 'loss'. It marks its parts with ``functional.phases``, if a profile is to tell
    them apart.

    Attributes:
        backbone: Written to its own file at the end of a training, and exported.
        layout: The views that the data pipeline cuts for the model; None: not ``PyramidCrop``'s.
    """

    backbone: Any  # nn.Module
    layout: ViewLayout | None = None

    def on_training_length(self, num_iters: int) -> None:
        """Hear how many iterations the whole training has; called before the first step."""

    def on_epoch_length(self, num_iters: int) -> None:
        """Hear how many iterations an epoch has; called before the first step."""

    def before_checkpoint(self) -> None:
        """Bring the state of all ranks to rank 0, which alone writes the checkpoint.

        Every rank calls it, so collectives are allowed.
        """

    def after_checkpoint(self) -> None:
        """Free what :meth:`before_checkpoint` collected; every rank calls it."""

    def health(self) -> dict[str, float | Tensor]:
        """Return scalars for the log about the state after this step, from what is at hand.

        Called in every step: nothing waits for the device here. Tensors are read later, those of
        many steps in one go, so what a step changes in place must be returned as a copy.
        """
        return {}

    def loss_terms(self) -> dict[str, LossTerm]:
        """Tell how ``visualize losses`` is to draw the terms that can be in the log, by name."""
        return {}


def is_pretraining(cfg: Config) -> bool:
    """Whether the config trains a ``PretrainingModel``."""
    model = cfg.get("model")
    kind: Any = model.get("type") if isinstance(model, Mapping) else None
    if isinstance(kind, str):
        kind = MODELS.get(kind)
    return isinstance(kind, type) and issubclass(kind, PretrainingModel)
