"""A recipe: what has been chosen for one training, and why."""

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
    """What to train and with which numbers.

    ``base`` is the config that it scales, of ``base_images`` images, which nobody changes;
    ``layout`` are the views, as ``ViewLayout``'s fields; the ``batch_size`` images of a device and
    step, which is one update, are seen by the backbone in ``num_chunks`` parts;
    ``steps_per_epoch`` are those of one process; ``optimizer`` is its config, with the lr, and
    ``schedule`` that of its rate. What else it replaces in ``base`` are ``values`` by dotted key.
    """

    method: Method
    base: Config
    base_images: int
    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: Backbone
    layout: dict[str, Any]
    batch_size: int
    num_chunks: int
    epochs: int
    steps_per_epoch: int
    rows: dict[str, RecipeRow]
    is_short: bool
    optimizer: dict[str, Any] = field(default_factory=dict)
    schedule: list[dict[str, Any]] = field(default_factory=list)
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
        """Whether AdamW trains."""
        return self.optimizer["type"] == "AdamW"

    def add_row(self, name: str, choice: str, reason: str) -> None:
        """Add a choice to what is printed."""
        self.rows[name] = RecipeRow(choice, reason)
