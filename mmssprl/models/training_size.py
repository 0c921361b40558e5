"""The size of a training, which the numbers of a method follow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmengine.config import Config


@dataclass(frozen=True, kw_only=True)
class TrainingSize:
    """Data, schedule, views and backbone of a training."""

    num_images: int
    epochs: int
    batch_size: int  # images per update and device
    num_devices: int = 1
    is_short: bool = True  # scale the method's form for short runs, not a published training
    data_share: float = 1.0  # images per image of the published training
    layout: Mapping[str, Any]  # fields of ``ViewLayout``
    channels: int  # of the backbone's pooled features
    gives_map: bool = True  # the backbone's last output is a feature map
    short_form: Config | None = None  # of the method, if a long run takes its optimizer

    @property
    def step_images(self) -> int:
        """Images per update on all devices."""
        return self.batch_size * self.num_devices

    @property
    def steps_per_epoch(self) -> int:
        """Updates per epoch; a sampler gives all devices equally many images."""
        return math.ceil(self.num_images / self.num_devices) // self.batch_size

    @property
    def num_steps(self) -> int:
        """Updates of the training."""
        return self.epochs * self.steps_per_epoch


def round_within(value: float, limits: tuple[int, int]) -> int:
    """Round a number to a multiple of 10 within two limits."""
    low, high = limits
    return min(high, max(low, 10 * round(value / 10)))
