"""A recipe: what was chosen for one training, and why."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mmengine.config import Config

from .backbones import Backbone
from .methods import Method
from .options import PretrainOptions


class RecipeRow(NamedTuple):
    """One choice of a recipe as it is printed."""

    choice: str
    reason: str


@dataclass
class Recipe:
    """What to train, and with which numbers."""

    method: Method
    asked: PretrainOptions
    base: Config  # scaled by the recipe; read only
    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: Backbone
    layout: dict[str, Any]  # fields of ``ViewLayout``
    batch_size: int  # images per device and update
    num_chunks: int  # parts in which the backbone sees them
    epochs: int
    is_short: bool  # ``base`` is the method's form for short runs, not a published training
    rows: dict[str, RecipeRow] = field(default_factory=dict)  # as printed
    optimizer: dict[str, Any] = field(default_factory=dict)  # its config, with the lr
    schedule: list[dict[str, Any]] = field(default_factory=list)  # config of the lr's schedule
    values: dict[str, Any] = field(default_factory=dict)  # other changes of ``base``, by dotted key
    warnings: list[str] = field(default_factory=list)

    @property
    def step_images(self) -> int:
        """Images per update on all devices."""
        return self.batch_size * self.num_devices

    @property
    def steps_per_epoch(self) -> int:
        """Updates per epoch."""
        return math.ceil(self.num_images / self.num_devices) // self.batch_size

    @property
    def num_steps(self) -> int:
        """Updates of the training."""
        return self.epochs * self.steps_per_epoch
