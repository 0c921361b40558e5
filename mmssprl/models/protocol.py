"""The interface of pre-training models, which hooks, checks, logs, pictures and export use.

A new method is one file in ``baselines``: a registered class that extends ``PretrainingModel``.
Everything but ``loss`` has a default, which is right for a method without queues and epochs of its
own, which sees its whole batch at once and is not compiled.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, ClassVar, NamedTuple

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
        num_classes: K that the term chooses among: a prediction that has learned nothing reads
            ln K. None where no value tells this.
        unrelated: Where no number of classes tells it: the value of a prediction that has nothing
            to do with its target.
        since: Updates before the first one with this weight.
    """

    symbol: str
    scale: int
    weight: float
    num_classes: int | None = None
    unrelated: float | None = None
    since: int = 0

    @property
    def chance(self) -> float | None:
        """What the term reads, divided by its weight, while nothing has been learned."""
        return log(self.num_classes) if self.num_classes else self.unrelated

    def relative(self, logged: float) -> float | None:
        """Return a logged value over the value of chance: the relative loss, 1 at first."""
        return logged / (self.weight * self.chance) if self.chance else None


class Region(NamedTuple):
    """Boxes that a method reads in one of the two image views, for its picture.

    Attributes:
        view: 0 or 1.
        name: What the boxes are, in a word or two.
        boxes: (B, R, 4), see ``functional.boxes``, in pixels of the view.
    """

    view: int
    name: str
    boxes: Tensor


class PretrainingModel(BaseSelfSupervisor):
    """A model that is trained for its ``backbone``.

    ``loss(inputs, data_samples)`` returns the terms of the loss by name, whose sum is trained on.
    Names begin with 'loss'.

    Attributes:
        backbone: Written to its own file at the end of a training, and exported.
        layout: The views that the data pipeline cuts for the model; None: not ``PyramidCrop``'s.
        takes_num_chunks: Whether the class has the argument ``num_chunks``, parts in which the
            backbone sees a batch. A method refuses it if parts would change it: momentum encoders,
            queues and groups of BatchNorm count whole updates.
        num_chunks: The parts of this model.
    """

    takes_num_chunks: ClassVar[bool] = False
    backbone: Any  # nn.Module
    layout: ViewLayout | None = None
    num_chunks: int = 1

    @classmethod
    def batch_unit(cls, cfg: Mapping[str, Any]) -> int:
        """Return the images per process of the smallest step that the model of ``cfg`` can train.

        What times a few images, instead of the training's batch, takes multiples of it.
        """
        return max(2, cfg.get("num_chunks", 1))

    def on_training_length(self, num_iters: int) -> None:
        """Receive the number of iterations of the whole training, before the first step."""

    def on_epoch_length(self, num_iters: int) -> None:
        """Receive the number of iterations per epoch, before the first step."""

    def fill_queues(self) -> None:
        """Step as late in a training, with full queues in use, for measurements."""

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Raise ValueError for data that the method cannot be trained on, before the first step.

        Args:
            num_images: Size of the data set.
            batch_size: B, images per process and step.
            last_batch_size: B of an epoch's last step, where it is incomplete; None: as all.
        """

    def before_checkpoint(self) -> None:
        """Gather the state of all ranks on rank 0, which writes. Called on every rank."""

    def after_checkpoint(self) -> None:
        """Free what :meth:`before_checkpoint` gathered. Called on every rank."""

    def checkpoint_bytes(self, num_ranks: int) -> int:
        """Return the size of the model's state in a checkpoint, including other ranks' parts."""
        return sum(value.nbytes for value in self.state_dict().values())

    def health(self) -> dict[str, float | Tensor]:
        """Return scalars for the log about the state after this step, from what is at hand.

        Called in every step: nothing waits for the device here. Tensors are read later, those of
        many steps in one go, so what a step changes in place must be returned as a copy.
        """
        return {}

    def examine(self) -> dict[str, Tensor]:
        """Return more scalars about the last step, which may be slow and wait for the device.

        Called only where a line of the log is about to be written, on every rank.
        """
        return {}

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Return what the backbone sees of a step's views, and regions of them, for a picture.

        Arguments are those of ``loss``. What is seen has the groups and the order of ``inputs``.
        """
        return inputs, ()

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe by name how a report draws the terms of the loss that the log may hold."""
        return {}


def pretraining_class(cfg: Config) -> type[PretrainingModel] | None:
    """Return the ``PretrainingModel`` that a config trains, or None."""
    model = cfg.get("model")
    kind: Any = model.get("type") if isinstance(model, Mapping) else None
    if isinstance(kind, str):
        kind = MODELS.get(kind)
    return kind if isinstance(kind, type) and issubclass(kind, PretrainingModel) else None


def is_pretraining(cfg: Config) -> bool:
    """Whether the config trains a ``PretrainingModel``."""
    return pretraining_class(cfg) is not None
