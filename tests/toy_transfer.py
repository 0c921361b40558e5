"""A model with the parts of a classifier by name, for the tests of schedules."""

from mmengine.model import BaseModel
from mmengine.registry import MODELS
from torch import nn
from toy_run import ToyData  # noqa: F401  # registers the data


@MODELS.register_module(force=True)
class ToyBackboneAndHead(BaseModel):
    """Two linear maps of one number."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(1, 1)
        self.head = nn.Linear(1, 1)

    def forward(self, inputs, target, mode="tensor"):
        return {"loss": 0 * (self.head(self.backbone(inputs)) - target).square().mean()}
