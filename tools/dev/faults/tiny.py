"""A training of milliseconds a step, through the package's own launcher and hooks."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, HOOKS, MODELS
from mmengine.runner import Runner
from torch import Tensor, nn

STEPS_PER_EPOCH = 4
CHANNEL = "MMSSPRL_FAULTS_PIPE"
"""Names the variable with the number of the pipe that a child tells its progress through."""

CONFIG = """
custom_imports = dict(imports=["tools.dev.faults.tiny"])
model = dict(type="TinyModel")
train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    dataset=dict(type="TinyData"),
    sampler=dict(type="DefaultSampler", shuffle=True),
    collate_fn=dict(type="default_collate"),
)
optim_wrapper = dict(optimizer=dict(type="AdamW", lr=1e-3))
param_scheduler = [dict(type="CosineAnnealingLR", T_max={epochs})]
train_cfg = dict(by_epoch=True, max_epochs={epochs})
default_hooks = dict(
    checkpoint=dict(type="CheckpointHook", interval=1, max_keep_ckpts=3),
    logger=dict(type="LoggerHook", interval=100),
)
custom_hooks = [dict(type="TellProgress")]
randomness = dict(seed=0)
log_level = "ERROR"
"""
SLOWLY = """
custom_hooks = [dict(type="Pause", seconds=0.5)]
default_hooks["logger"]["interval"] = 1
log_level = "INFO"
"""
"""Added to the config: steps that a job's signals can come between, each in the log."""


@DATASETS.register_module()
class TinyData(torch.utils.data.Dataset):
    """Eight vectors, each its own target."""

    def __len__(self) -> int:
        return 2 * STEPS_PER_EPOCH

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        x = torch.randn(256, generator=torch.Generator().manual_seed(index))
        return {"inputs": x, "target": x}


@MODELS.register_module()
class TinyModel(BaseModel):
    """Two layers and a BatchNorm: 0.1 million weights, so that a save takes some milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.Linear(256, 256))

    def forward(self, inputs: Tensor, target: Tensor, mode: str = "tensor") -> dict[str, Tensor]:
        """Return the loss."""
        return {"loss": (self.layers(inputs) - target).square().mean()}


@HOOKS.register_module()
class TellProgress(Hook):
    """Tells what starts this process where its training is: a letter and the steps done."""

    priority = "LOWEST"

    def before_train(self, runner: Runner) -> None:
        """Tell where it goes on from."""
        self._tell("r", runner.iter)

    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Tell that a step is done."""
        self._tell("i", runner.iter + 1)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Tell that a save begins."""
        self._tell("s", runner.iter)

    def after_train_epoch(self, runner: Runner) -> None:
        """Tell that a save has ended."""
        self._tell("e", runner.iter)

    @staticmethod
    def _tell(letter: str, step: int) -> None:
        if is_main_process() and CHANNEL in os.environ:
            os.write(int(os.environ[CHANNEL]), f"{letter} {step}\n".encode())


@HOOKS.register_module()
class Pause(Hook):
    """Waits before each step.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def before_train_iter(self, *args: object, **kwargs: object) -> None:
        """Wait."""
        time.sleep(self.seconds)


def write_config(folder: Path, epochs: int) -> Path:
    """Write the config of so many epochs into a folder."""
    path = folder / "tiny.py"
    path.write_text(CONFIG.format(epochs=epochs))
    return path


def train(config: Path, work_dir: Path, hooks: Sequence[Hook] = ()) -> None:
    """Begin the training, or go on with it, with more hooks."""
    from mmssprl.engine.launch import prepare_train_config, run

    run(prepare_train_config(config, work_dir=work_dir, resume="auto"), "train", hooks=hooks)
