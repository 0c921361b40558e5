"""What there is to know of a method: as a row of `compare`, and as a choice of `pretrain`.

Recipes are scaled between the two published trainings of each method, on COCO train2014 and on
ImageNet, whose numbers are those of the shipped configs.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...config.shipped import shipped

if TYPE_CHECKING:
    from mmengine.config import Config

    from ..backbones import Backbone

COCO_IMAGES = 82_783
IMAGENET_IMAGES = 1_281_167


def way_to_imagenet(num_images: int) -> float:
    """Return 0 up to COCO's number of images, 1 from ImageNet's on, by its logarithm between."""
    way = math.log(num_images / COCO_IMAGES) / math.log(IMAGENET_IMAGES / COCO_IMAGES)
    return min(1.0, max(0.0, way))


def between(coco: float, imagenet: float, num_images: int) -> float:
    """Return a published number, geometrically between those of both trainings."""
    way = way_to_imagenet(num_images)
    return coco ** (1 - way) * imagenet**way


def round_within(value: float, limits: tuple[int, int]) -> int:
    """Return a scaled number between two limits, as a multiple of 10, to be read easily."""
    low, high = limits
    return min(high, max(low, 10 * round(value / 10)))


PUBLISHED = {
    "COCO": "resnet50_2xb64-coslr-200e_coco",
    "ImageNet": "resnet50_8xb32-coslr-100e_in1k",
}
"""How the configs of the published trainings go on behind ``Method.config``, by their data."""


_SHARE_PERCENT = 7
"""Of the steps, over which the average reaches, 1 / (1 - m), unless the published m is shorter:
with m = 0.999 the average would still be at its random start when a short training ends."""


@dataclass(frozen=True, eq=False)
class Method:
    """One method, a line of the table.

    Args:
        key: Its name in ``--methods``, in file names and in the CSV files.
        title: As printed.
        config: Its shipped configs below configs/, up to their data; or the path of a config of the
            user's, which has no other size.
        trains: Whether it is trained at all; if not, the backbone has random weights.
        uses_labels: Whether it trains on labels: a bound, and no competitor.
        momentum: Field of the config for the momentum of a network that averages another one, and
            the greatest value that is published; None if the method has no such network.
    """

    key: str
    title: str
    config: str
    trains: bool = True
    uses_labels: bool = False
    momentum: tuple[str, float] | None = None

    @property
    def is_users(self) -> bool:
        """Whether ``config`` is the path of a user's file."""
        return self.config.endswith(".py")

    @property
    def competes(self) -> bool:
        """Whether "better" and "worse" are asked of it."""
        return self.trains and not self.uses_labels

    def config_file(self, data: str = "COCO") -> Path:
        """Return the user's config, or the shipped one of PUBLISHED; with labels that of scenes."""
        if self.is_users:
            return Path(self.config)
        name = "resnet18_scenes" if self.uses_labels else PUBLISHED[data]
        return shipped(f"configs/{self.config}_{name}.py")

    def config_at(self, size: str) -> "Config":
        """Return the config at a size, see ``at_size``; the user's is as it is."""
        from ...config.at_size import read_at_size  # takes torch, for which `--help` does not wait

        return read_at_size(self.config_file(), None if self.is_users else size)


class RecipeRow(NamedTuple):
    """One choice of a recipe as it is printed."""

    choice: str
    reason: str


@dataclass
class Recipe:
    """What to train and with which numbers: those of all methods, then the method's own.

    ``layout`` are the views, as ``ViewLayout``'s fields; the ``batch_size`` images of a device and
    step, which is one update, are seen by the backbone in ``num_chunks`` parts;
    ``steps_per_epoch`` are those of one process; ``optimizer`` is its config, with the lr. What a
    method adds are ``values`` by dotted key of its config, ``rows`` to be printed, and warnings.
    """

    method: "RecipeMethod"
    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: "Backbone"
    layout: dict[str, Any]
    batch_size: int
    num_chunks: int
    epochs: int
    steps_per_epoch: int
    rows: dict[str, RecipeRow]
    optimizer: dict[str, Any] = field(default_factory=dict)
    warmup_epochs: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class RecipeMethod(Method, ABC):
    """A method that `pretrain` takes, too; a family of them says what it adds to a recipe.

    Its numbers are those of the shipped configs of its published trainings: on COCO, into which the
    recipe's are put and whose views and optimizer it scales, and on ImageNet, of which it reads the
    optimizer and the head.

    Args:
        variant: A form of SS-PRL, as ``--variant`` calls it.
        in1k: As ``config``, for ImageNet; empty is the same.
        adamw_lr: Of AdamW at 64 images and more, where it stands in for the published optimizer:
            between the best rates of a narrow and of a whole ResNet-18 on photographs, of
            ``docs/results/photos/tuning.csv`` and ``docs/results/photos_gpu/tuning.csv``.
        adamw_warmup_epochs: Before AdamW's cosine.
        lr_decay: First learning rate / the last one of the cosine.
    """

    variant: str | None = None
    in1k: str = ""
    adamw_lr: float
    adamw_warmup_epochs: int = 0
    lr_decay: float = math.inf

    @property
    def run_name(self) -> str:
        """As ``--method`` calls it, and what the files of its runs begin with."""
        return "ssprl" if self.variant else self.key

    @cached_property
    def coco(self) -> "Config":
        """The config of the published training on COCO, which nobody changes."""
        return _read(self.config_file())

    @cached_property
    def imagenet(self) -> "Config":
        """The config of the published training on ImageNet, which nobody changes."""
        return _read(shipped(f"configs/{self.in1k or self.config}_{PUBLISHED['ImageNet']}.py"))

    @abstractmethod
    def add_to(self, recipe: Recipe) -> None:
        """Add the numbers that the method alone has; ValueError if it cannot be trained so."""


def _read(path: Path) -> "Config":
    from mmengine.config import Config  # takes torch, for which `--help` does not wait

    return Config.fromfile(path)


def momentum_for(num_steps: int, published: float) -> tuple[float, str]:
    """Return m for a training of so many steps, at most the published one, and why."""
    memory_steps = num_steps * _SHARE_PERCENT / 100
    fitting = round(1 - 1 / max(1.0, memory_steps), 4)
    if published <= fitting:
        return published, "as published"
    return fitting, f"an average over {_SHARE_PERCENT} % of the {num_steps} updates"
