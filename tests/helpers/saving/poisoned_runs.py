"""Hooks by which the numbers of a training go bad in a step that is known."""

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


class BadMomentum(Hook):
    """Gives all of the optimizer's momentum one value after some step."""

    def __init__(self, step, value=torch.inf):
        self.step, self.value = step, value

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if runner.iter + 1 == self.step:
            for state in runner.optim_wrapper.optimizer.state.values():
                state["momentum_buffer"].fill_(self.value)


BEST = """
val_dataloader = test_dataloader
val_evaluator = test_evaluator
val_cfg = dict(type="ValLoop")
default_hooks = dict(
    checkpoint=dict(type="CheckpointHook", interval=1, save_best="total", rule="greater"),
)
"""
"""Text of a config that keeps the best checkpoint of the toy."""
