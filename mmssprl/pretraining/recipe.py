"""A recipe: one training, and why it is chosen."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mmengine.config import Config

from ..models import TrainingSize
from .known_backbones import Backbone
from .methods import SHORT, Method
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
    base_images: int  # of the published training that is scaled
    cfg: Config  # what is trained
    num_images: int
    num_devices: int
    on_gpu: bool
    backbone: Backbone
    is_short: bool  # ``base`` is the method's form for short runs, not a published training
    rows: dict[str, RecipeRow] = field(default_factory=dict)  # as printed
    warnings: list[str] = field(default_factory=list)

    @property
    def optimizer_base(self) -> Config:
        """The config with the optimizer to scale: published ones are for ResNets alone."""
        return self.base if self.backbone.is_resnet else self.method.config_at(SHORT)

    @property
    def size(self) -> TrainingSize:
        """The size of the training, which the method's numbers follow."""
        return TrainingSize(
            num_images=self.num_images,
            epochs=self.epochs,
            batch_size=self.batch_size,
            num_devices=self.num_devices,
            is_short=self.is_short,
            data_share=self.num_images / self.base_images,
            layout=self.cfg.model.layout,
            channels=self.backbone.channels,
            gives_map=self.backbone.gives_map,
            short_form=None if self.optimizer_base is self.base else self.optimizer_base,
        )

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
        return self.size.step_images

    @property
    def steps_per_epoch(self) -> int:
        """Updates per epoch."""
        return self.size.steps_per_epoch

    @property
    def num_steps(self) -> int:
        """Updates of the training."""
        return self.size.num_steps
