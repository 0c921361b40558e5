"""A hook that makes a training diverge in a known step."""

import torch
from mmengine.hooks import Hook

from mmssprl.models.unwrap import unwrap


class BadGradient(Hook):
    """Makes the gradient of the first weight NaN in a step, counted from 1."""

    def __init__(self, step):
        self.step = step

    def before_train(self, runner):
        self.runner = runner
        next(unwrap(runner.model).parameters()).register_hook(self._spoil)

    def _spoil(self, gradient):
        return gradient * torch.nan if self.runner.iter + 1 == self.step else gradient
