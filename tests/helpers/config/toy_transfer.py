"""A model with the parts of a classifier by name, for the tests of schedules."""

from collections.abc import Sequence

from helpers.engine.toy_run import ToyData  # noqa: F401  # registers the data
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from torch import nn


@MODELS.register_module(force=True)
class ToyBackboneAndHead(BaseModel):
    """Two linear maps of one number, whose gradient is what ``slopes`` say.

    Args:
        slopes: d loss / d weight and d loss / d bias of the backbone, then of the head.
    """

    def __init__(self, slopes: Sequence[float] = (0, 0, 0, 0)) -> None:
        super().__init__()
        self.backbone = nn.Linear(1, 1)
        self.head = nn.Linear(1, 1)
        self.slopes = slopes

    def forward(self, inputs, target, mode="tensor"):
        parameters = zip(self.slopes, self.parameters(), strict=True)
        return {"loss": sum(slope * parameter.sum() for slope, parameter in parameters)}
