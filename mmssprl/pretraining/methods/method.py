"""What ``pretrain`` has to know of a method, and what it tells the method of a run."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mmengine.config import Config

from ..backbones import Backbone


class Row(NamedTuple):
    """One choice of a recipe as it is printed."""

    choice: str
    reason: str


@dataclass(frozen=True)
class Setting:
    """What is chosen for every method alike, before its own numbers.

    Args:
        num_images: Images to train on.
        num_devices: Processes.
        on_gpu: Whether they are on GPUs.
        backbone: What is trained.
        layout: The views, as a dict of ``ViewLayout``'s fields.
        batch_size: Images per device and step, which is one update.
        num_chunks: Parts in which the backbone sees them, see ``SSPRL``.
        epochs: Passes over the images.
        steps_per_epoch: Batches of one process and epoch.
        optimizer: Config of the optimizer, with its lr.
        warmup_epochs: Epochs in which the rate rises, before the cosine.
        coco: The config of the method's published training there.
        imagenet: The same for ImageNet.
    """

    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: Backbone
    layout: dict[str, Any]
    batch_size: int
    num_chunks: int
    epochs: int
    steps_per_epoch: int
    optimizer: dict[str, Any]
    warmup_epochs: int
    coco: Config
    imagenet: Config

    @property
    def step_images(self) -> int:
        """Images of an update, of all devices."""
        return self.batch_size * self.num_devices

    @property
    def num_steps(self) -> int:
        """Updates of the training."""
        return self.epochs * self.steps_per_epoch

    @property
    def uses_adamw(self) -> bool:
        """Whether AdamW stands in for the published optimizer."""
        return self.optimizer["type"] == "AdamW"


@dataclass(frozen=True)
class Additions:
    """What a method adds to a recipe.

    Args:
        values: Of its config, by dotted key.
        rows: What is printed about them, by name.
        warnings: What the user should know before the run.
    """

    values: dict[str, Any]
    rows: dict[str, Row]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Method(ABC):
    """A method of ``pretrain``; a family of methods extends this by what it adds to a recipe.

    Args:
        key: Its name on the command line, with which the files of its runs begin.
        title: As printed.
        base_config: Shipped config that the recipe's numbers are put into: the published training
            on COCO, whose views and optimizer the recipe scales.
        imagenet_config: The shipped config of the published training on ImageNet; of it the
            optimizer and the head's numbers are read.
        adamw_lr: Of AdamW at 64 images and more, where it stands in for the published optimizer:
            between the best rates of a narrow and of a whole ResNet-18 on photographs, of
            ``docs/results/photos/tuning.csv`` and ``docs/results/photos_gpu/tuning.csv``.
        adamw_warmup_epochs: Before AdamW's cosine.
        lr_decay: First learning rate / the last one of the cosine.
    """

    key: str
    title: str
    base_config: str
    imagenet_config: str
    adamw_lr: float
    adamw_warmup_epochs: int = 0
    lr_decay: float = math.inf

    def views(self, published: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the views at full size, dicts of ``ViewLayout``, and what to say about them.

        Args:
            published: Those of the base config.
        """
        return dict(published), ""

    @abstractmethod
    def additions(self, setting: Setting) -> Additions:
        """Choose the numbers that the method alone has.

        Raises:
            ValueError: The method cannot be trained in this setting.
        """
