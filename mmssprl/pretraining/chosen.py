"""A recipe: what was chosen for one training, and why."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mmengine.config import Config

from .backbones import Backbone
from .methods import Method


class RecipeRow(NamedTuple):
    """One choice of a recipe as it is printed."""

    choice: str
    reason: str


@dataclass
class Recipe:
    """What to train, and with which numbers.

    Args:
        method: The method.
        base: The config that the recipe scales; read only.
        num_images: Images of the data set.
        num_devices: Training processes.
        on_gpu: Whether they run on GPUs.
        backbone: The backbone.
        layout: Fields of ``ViewLayout``.
        batch_size: Images per device and update.
        num_chunks: Parts in which the backbone sees the images of an update.
        epochs: Passes over the images.
        is_short: Whether ``base`` is the method's form for short runs, not a published training.
        rows: Choices by name, as printed.
        optimizer: Config of the optimizer, with the lr.
        schedule: Config of the learning rate's schedule.
        values: Further replacements in ``base`` by dotted key.
        warnings: Printed after the rows.
    """

    method: Method
    base: Config
    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: Backbone
    layout: dict[str, Any]
    batch_size: int
    num_chunks: int
    epochs: int
    is_short: bool
    rows: dict[str, RecipeRow] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    schedule: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
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

    @property
    def uses_adamw(self) -> bool:
        """Whether the optimizer is AdamW."""
        return self.optimizer["type"] == "AdamW"
