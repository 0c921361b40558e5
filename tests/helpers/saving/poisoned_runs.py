"""A hook that makes a training diverge in a known step."""

import torch
from mmengine.hooks import Hook


class BadGradient(Hook):
    """Makes the gradient of the first weight NaN from a step on, counted from 1."""

    def __init__(self, step):
        self.step = step

    def before_train_iter(self, runner, *args, **kwargs):
        if runner.iter + 1 == self.step:
            next(runner.model.parameters()).register_hook(lambda gradient: gradient * torch.nan)
