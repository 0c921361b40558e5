"""Trainings of the toy, whose numbers go bad in a step that is known."""

import itertools

import torch
from mmengine.hooks import Hook
from toy_checkpoint import SCHEDULE
from toy_run import write_config

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.engine.unwrap import unwrap


class BadImages(Hook):
    """Makes the input of some steps NaN, and with it all that the step touches."""

    def __init__(self, *steps):
        self.steps = steps

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter + 1 in self.steps:
            data_batch["inputs"].fill_(torch.nan)


class BadViews(Hook):
    """The same for a pre-training."""

    def __init__(self, *steps):
        self.steps = steps

    def before_train(self, runner):
        def spoil(module, args):
            is_bad = runner.iter + 1 in self.steps
            return (args[0] * torch.nan, *args[1:]) if is_bad else None

        unwrap(runner.model).backbone.register_forward_pre_hook(spoil)


class BadState(Hook):
    """Puts a value into a tensor of the model before some step."""

    priority = "LOWEST"

    def __init__(self, step, name, value=torch.inf):
        self.step, self.name, self.value = step, name, value

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter + 1 == self.step:
            with torch.no_grad():
                unwrap(runner.model).state_dict()[self.name].fill_(self.value)


class BadMomentum(Hook):
    """Gives all of the optimizer's momentum one value after some step."""

    def __init__(self, step, value=torch.inf):
        self.step, self.value = step, value

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if runner.iter + 1 == self.step:
            for state in runner.optim_wrapper.optimizer.state.values():
                state["momentum_buffer"].fill_(self.value)


class State(Hook):
    """Keeps a copy of weights, buffers and the optimizer's state before each step.

    Without the record of prototypes in use, which is of the log: a dropped step has used some, too.

    Args:
        numbers: Whether Python's counters are among them.
    """

    priority = "LOWEST"

    def __init__(self, *, numbers=True):
        self.before = {}
        self.left_out = ".last_use" if numbers else (".last_use", "_extra_state")

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        optimizer = runner.optim_wrapper.optimizer.state.values()
        state = unwrap(runner.model).state_dict()
        values = [
            [value for name, value in state.items() if not name.endswith(self.left_out)],
            *(each.values() for each in optimizer),
        ]
        self.before[runner.iter + 1] = [v.clone() for each in values for v in each if v is not None]


BEST = """
val_dataloader = test_dataloader
val_evaluator = test_evaluator
val_cfg = dict(type="ValLoop")
default_hooks = dict(
    checkpoint=dict(type="CheckpointHook", interval=1, save_best="total", rule="greater"),
)
"""
"""Text of a config that keeps the best checkpoint of the toy."""

_NUMBERS = itertools.count()


def train_toy(folder, *hooks, epochs=2, text="", options=None, **arguments):
    """Train the toy of four steps an epoch in ``folder``/run."""
    config = write_config(folder)
    schedule = SCHEDULE.replace("max_epochs=2", f"max_epochs={epochs}")
    config.write_text(config.read_text() + schedule + text)
    cfg = prepare_train_config(
        config, work_dir=folder / "run", cfg_options=options or {}, **arguments
    )
    # Two runners in one second would share mmengine's name.
    cfg.experiment_name = f"toy_{next(_NUMBERS)}"
    run(cfg, "train", hooks=hooks)
