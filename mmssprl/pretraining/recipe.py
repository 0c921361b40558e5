"""A recipe: one training, and why it is chosen."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

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
    """A training, and the reasons for what was chosen."""

    method: Method
    asked: PretrainOptions
    base: Config  # what is scaled; read only
    cfg: Config  # what is trained
    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: Backbone
    is_short: bool  # ``base`` is the method's form for short runs, not a published training
    rows: dict[str, RecipeRow] = field(default_factory=dict)  # as printed
    warnings: list[str] = field(default_factory=list)

    @property
    def batch_size(self) -> int:
        """Images per device and update."""
        return self.cfg.train_dataloader.batch_size

    @property
    def epochs(self) -> int:
        """Passes over the images."""
        return self.cfg.train_cfg.max_epochs

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
