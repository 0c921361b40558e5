"""Interface of pre-training models for hooks, checks, logs, pictures and export.

A new method is one file in ``baselines``: a registered class that extends ``PretrainingModel``.
Only ``loss`` is required. The defaults of all other methods suit a model that has no queues and no
settings in epochs, sees its whole batch at once, is not compiled, and has no number that follows
the data.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, ClassVar, Literal, NamedTuple

from mmengine.config import Config
from mmpretrain.models import BaseSelfSupervisor
from torch import Tensor

from ..errors import UserRuntimeError, UserValueError
from ..pyramid import ViewLayout
from ..registry import MODELS
from .training_size import TrainingSize


class LossTerm(NamedTuple):
    """How to plot one term of the loss."""

    symbol: str  #: in TeX; terms with the same one share a row of panels
    scale: int  #: column of the panel: 0 for the image, s >= 1 for a patch level
    weight: float  #: > 0; the logged value is divided by it
    num_classes: int | None = None  #: K that the term chooses from; before learning it is ln K
    unrelated: float | None = None  #: without K: the value for an unrelated prediction
    since: int = 0  #: updates before the first one with this weight

    @property
    def chance(self) -> float | None:
        """Value of the term, divided by its weight, before anything is learned."""
        return log(self.num_classes) if self.num_classes else self.unrelated

    def relative(self, logged: float) -> float | None:
        """Return the relative loss: a logged value over the value at chance, so 1 at first."""
        return logged / (self.weight * self.chance) if self.chance else None


class HealthPanel(NamedTuple):
    """Scalars of ``health`` and ``examine`` that a report draws in one panel."""

    title: str
    scalars: str  #: regular expression of their names; '_s0' and '_s1' name a scale
    labels: Mapping[str, str] = {}  #: in the legend, of names without a scale


VIEW_PANELS = (
    HealthPanel("embedding spread", "embedding_spread"),
    HealthPanel("effective rank (RankMe)", "effective_rank"),
    HealthPanel(
        "mean cosine of two views",
        "alignment(_others)?",
        {"alignment": "of one image", "alignment_others": "of two images"},
    ),
)
"""Panels of ``functional.health``, for all methods that compare views."""


class Region(NamedTuple):
    """Boxes in one of the two image views, drawn in the picture of a method's views."""

    view: int  #: 0 or 1
    name: str  #: what the boxes show, in a word or two
    boxes: Tensor  #: (B, R, 4), see ``functional.boxes``, in pixels of the view


class PretrainingModel(BaseSelfSupervisor):
    """A model that pre-trains its ``backbone``.

    ``loss(inputs, data_samples)`` returns the loss terms by name. The names begin with 'loss', and
    the sum of the terms is minimised.

    Attributes:
        backbone: Written to its own file at the end of the training, and exported.
        layout: The views that the data pipeline cuts; None if ``PyramidCrop`` does not cut them.
        takes_num_chunks: Whether the class has the argument ``num_chunks``: the backbone sees the
            batch in this many parts. False for methods that this would change, because momentum
            encoders, queues and groups of BatchNorm need the whole batch of an update.
        num_chunks: The number of parts of this model.
        needs: Output of the backbone that the method reads: its pooled features, its last map, or
            the maps of all stages.
        learns_from_teacher: Whether the loss needs the maps that ``TeacherHook`` keeps.
        teacher_is_start: Whether that teacher is the network that the training starts from.
        anchored_form: Registered name of the model that adds such a teacher to this one.
        data_fields: Fields of ``model.head`` that follow the images. A method without a config for
            ImageNet takes them from SS-PRL's.
        health_panels: How a report draws ``health`` and ``examine``, in this order.
    """

    takes_num_chunks: ClassVar[bool] = False
    needs: ClassVar[Literal["pooled", "map", "stages"]] = "pooled"
    learns_from_teacher: ClassVar[bool] = False
    teacher_is_start: ClassVar[bool] = False
    anchored_form: ClassVar[str | None] = None
    data_fields: ClassVar[Sequence[str]] = ()
    health_panels: ClassVar[Sequence[HealthPanel]] = VIEW_PANELS
    backbone: Any  # nn.Module
    layout: ViewLayout | None = None
    num_chunks: int = 1

    @classmethod
    def batch_unit(cls, cfg: Mapping[str, Any]) -> int:
        """Return the smallest batch per process that the model of ``cfg`` can train on.

        Timings with smaller batches than the training's use multiples of it.
        """
        return max(2, cfg.get("num_chunks", 1))

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return the numbers that follow from the size of a training, by dotted key of the config.

        ``pretrain`` and ``compare`` set them.

        Args:
            cfg: The config that is scaled: the method's form for short runs, or a published
                training. Read only.
            size: The training to scale it to.
        """
        return {}

    @classmethod
    def size_warnings(cls, cfg: Config, size: TrainingSize) -> list[str]:
        """Return warnings of ``pretrain`` about a scaled config that trains at a size."""
        return []

    def on_training_length(self, num_iters: int) -> None:
        """Set the iterations of the whole training; called before the first step."""

    def on_epoch_length(self, num_iters: int) -> None:
        """Set the iterations per epoch; called before the first step."""

    def fill_queues(self) -> None:
        """Fill the queues and use them, to measure the steps of a late epoch."""

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Raise ValueError if the method cannot train on this data; called before the first step.

        Args:
            num_images: Size of the data set.
            batch_size: B, images per process and step.
            last_batch_size: B of the last step of an epoch if it is smaller, else None.
        """

    def before_checkpoint(self) -> None:
        """Gather the state of all ranks on rank 0, which saves it. Called on every rank."""

    def after_checkpoint(self) -> None:
        """Free the state that :meth:`before_checkpoint` gathered. Called on every rank."""

    def checkpoint_bytes(self, num_ranks: int) -> int:
        """Return the bytes of the model's state in a checkpoint, with the state of all ranks."""
        return sum(value.nbytes for value in self.state_dict().values())

    def health(self) -> dict[str, float | Tensor]:
        """Return scalars for the log about the state after this step.

        Called in every step, so it must not wait for the device. The tensors of many steps are
        read together later, so return a copy of any tensor that a step changes in place.
        """
        return {}

    def examine(self) -> dict[str, Tensor]:
        """Return further scalars about the last step, which may be slow to compute.

        Called on every rank, only before a line of the log is written. It may wait for the device.
        """
        return {}

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Return the views as the backbone sees them, and regions to mark, for a picture.

        It takes the arguments of ``loss``. The views have the groups and the order of ``inputs``.
        """
        return inputs, ()

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe, by name, how a report plots the loss terms of the log."""
        return {}


def known_length(num_iters: int | None, setting: str) -> int:
    """Return the length of an epoch or the training; RuntimeError if nobody has set it."""
    if num_iters is None:
        raise UserRuntimeError(
            f"{setting} needs the length of an epoch or of the training; add "
            "dict(type='PretrainHook') to custom_hooks."
        )
    return num_iters


def check_divides(setting: str, num: int, *sizes: int | None) -> None:
    """Raise ValueError unless ``num`` divides the sizes of a batch and of the last one, or None."""
    for i, size in enumerate(sizes):
        if (size or 0) % num:
            remedy = f"change model.{setting} or train_dataloader.batch_size"
            raise UserValueError(
                f"the images of {'the last' if i else 'every'} batch must be a multiple of "
                f"model.{setting}={num}, but got {size}; "
                f"{'set train_dataloader.drop_last=True' if i else remedy}."
            )


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
