"""A training of milliseconds a step, in processes that are killed, and the end it must have."""

import os
import select
import signal
import sys
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, HOOKS, MODELS
from mmengine.runner import Runner
from torch import Tensor, nn

from mmssprl.engine.launch import prepare_train_config, run

STEPS_PER_EPOCH = 4
CHANNEL = "MMSSPRL_FAULTS_PIPE"
"""Names the variable with the number of the pipe that a child tells its progress through."""

CONFIG = """
custom_imports = dict(imports=["tools.dev.faults.training"])
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
_SILENT_S = 120.0  # after it a training hangs
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
    """Waits some seconds before each step."""

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
    run(prepare_train_config(config, work_dir=work_dir, resume="auto"), "train", hooks=hooks)


class Child:
    """A process that runs a function, adds its output to a file, and tells its progress.

    It is forked from one that has imported everything. ``steps`` were done when it was last heard
    of; ``begun_at`` are those that it went on from, None before it has.
    """

    def __init__(self, function: Callable[[], object], log: Path) -> None:
        self.steps = 0
        self.begun_at: int | None = None
        self._rest = b""
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(function, log, self._reading, writing)
        os.close(writing)

    def events(self) -> Iterator[str]:
        """Yield the letters of what it tells, until it ends."""
        while True:
            if not select.select([self._reading], [], [], _SILENT_S)[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"after step {self.steps} a training hangs")
            data = os.read(self._reading, 65536)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                letter, step = line.decode().split()
                self.steps = int(step)
                if letter == "r":
                    self.begun_at = self.steps
                yield letter
            if not data:
                return

    def wait(self) -> int:
        """Return how it has ended: an exit code, or the number of a signal below 0."""
        for _ in self.events():
            pass
        os.close(self._reading)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _be_child(function: Callable[[], object], log: Path, reading: int, writing: int) -> None:
    os.close(reading)
    os.environ[CHANNEL] = str(writing)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    status = 1
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


Work = Callable[[Path, Path], object]


class Runs:
    """Trainings of one config, each in a folder of its own, and the one without a fault."""

    def __init__(self, folder: Path, epochs: int, work: Work = train) -> None:
        self.folder, self.epochs, self.work = folder, epochs, work
        self.config = write_config(folder, epochs)
        start = begun = time.monotonic()
        saves = []
        child = self.start("whole")
        for letter in child.events():
            now = time.monotonic()
            begun = now if letter == "s" else begun
            if letter == "e":
                saves.append(now - begun)
            if child.begun_at == child.steps == 0:
                self.start_s = now - start
        if child.wait():
            raise RuntimeError(f"the run without a fault has failed, see {folder / 'log.txt'}")
        self.save_s = sorted(saves)[len(saves) // 2]
        self.epoch_s = (time.monotonic() - start - self.start_s) / epochs
        self.expected = load_state(self.last("whole"))

    def start(self, name: str, work: Work | None = None) -> Child:
        """Start a run, or go on with it."""
        function = partial(work or self.work, self.config, self.folder / name)
        return Child(function, self.folder / "log.txt")

    def last(self, name: str) -> Path:
        """Return the checkpoint of the end of a run."""
        return self.folder / name / f"epoch_{self.epochs}.pth"

    def has_right_end(self, name: str) -> bool:
        """Whether a run has ended as the one without a fault."""
        return equal(load_state(self.last(name)), self.expected)

    def num_torn(self, name: str) -> int:
        """Count the checkpoints of a run that are not whole."""
        return sum(not is_whole(path) for path in (self.folder / name).glob("epoch_*.pth"))


def is_whole(path: Path) -> bool:
    """Whether every byte of a checkpoint is as it was written, and plain torch.load reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip():
                return False
        torch.load(path, weights_only=True)
    except Exception:  # damaged files raise almost any class
        return False
    return True


def equal(first: Any, second: Any) -> bool:
    """Whether two checkpoints hold the same, bit by bit."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return bool(first == second)


def load_state(path: Path) -> dict[str, Any]:
    """Return what two runs must agree about: not their folder and their times."""
    content = torch.load(path, weights_only=True)
    scalars = content["message_hub"]["log_scalars"]
    history = {name: scalars[f"train/{name}"]["log_history"] for name in ("loss", "lr")}
    kept = ("state_dict", "optimizer", "param_schedulers")
    return {"history": history, **{key: content[key] for key in kept}}
