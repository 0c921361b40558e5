"""A training that is measured: the ordinary runner, on a few batches from memory, under a clock."""

import copy
import os
import time
from collections.abc import Generator, Iterator, Mapping
from itertools import cycle
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import get_rank, get_world_size
from mmengine.hooks import Hook
from mmengine.runner import Runner

from ..config.reading import read_config_file
from ..engine.device_prefetcher import Prefetcher
from ..engine.launch import prepare_train_config
from ..errors import UserValueError
from ..functional import phases
from ..models import is_pretraining
from ..models.unwrap import unwrap
from .clock import PhaseClock
from .loader_phases import measure_loader

_COMPARING_S = 4.0
"""After it, and after five rounds, no more steps are taken to choose the number of threads."""
_ROUNDS = 5
_LONGEST_S = 20.0
"""After it fewer rounds do: one step of other work's making is then as long as many."""
_LEAST_GAIN = 1.1
"""How many times faster all threads must be than one: beside other work most of what they seem to
gain in a few steps is chance, and what they lose later is not."""
_ENDLESS = 10**6
"""Epochs: more steps may be measured than the training has."""
_WITHOUT = ("runtime_info", "timer", "logger", "param_scheduler", "checkpoint", "sampler_seed")


def read_config(
    config: str | Path,
    *,
    work_dir: str,
    data: str | Path | None = None,
    cfg_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Config:
    """Read a pre-training config.

    Args:
        config: Config file.
        work_dir: An empty folder that is deleted afterwards.
        data: Replaces ``train_dataloader.dataset.data_root``.
        cfg_options: Values by dotted key that replace the config's.
        options: ``amp``, ``compile`` and ``launcher`` of ``prepare_train_config``.

    Raises:
        FileNotFoundError: No such config.
        RuntimeError: Something is to be compiled that cannot be compiled here.
        ValueError: No pre-training config, or ``amp`` without an accelerator.
    """
    cfg = read_config_file(config)
    if not is_pretraining(cfg) or cfg.get("train_dataloader") is None:
        raise UserValueError(
            "config must be a pre-training config (a pre-training model and a train_dataloader), "
            f"but {cfg.filename} has model.type={(cfg.get('model') or {}).get('type')!r}; the "
            "shipped ones are in configs/ssprl."
        )
    values = dict(cfg_options or {})
    if data is not None:
        values["train_dataloader.dataset.data_root"] = str(data)
    return prepare_train_config(config, work_dir=work_dir, cfg_options=values, **options)


def for_measuring(cfg: Config) -> Config:
    """Make a config one for steps from random weights that leave nothing behind, and no probe.

    However few steps the training has, any number can be measured.
    """
    cfg = copy.deepcopy(cfg)
    hooks = cfg.get("custom_hooks") or []
    cfg.custom_hooks = [hook for hook in hooks if hook["type"] != "ProbeHook"]
    cfg.default_hooks = dict.fromkeys(_WITHOUT)  # None takes a hook away
    cfg.param_scheduler = cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.load_from, cfg.resume = None, False
    cfg.train_dataloader.drop_last = True
    if "max_epochs" in cfg.train_cfg:
        cfg.train_cfg.max_epochs = _ENDLESS
    cfg.randomness = {"seed": 0}  # the same augmentations, so the same work, in every run
    cfg.log_level = "WARNING"
    cfg.experiment_name = Path(cfg.work_dir).name  # two runs of one name would share their files
    return cfg


class MeasuringHook(Hook):
    """Replaces the runner's loader by :meth:`steps`, which measures what happens between batches.

    The loop asks ``steps`` for a batch, trains on it and asks for the next: so a context around a
    ``yield`` lasts for one step. The training ends with the last batch.

    The model tells the clock its phases (``functional.phases``), and the hook those of the
    optimizer: the backward pass counts as ``HEADS_BACKWARD`` until the model says that it
    goes on as the backbone's, ``OPTIMIZER`` is ``step`` and ``zero_grad``. The gradients'
    all-reduce runs inside the backward. Queues are full and in use from the first step on, as for
    most of a training.
    """

    priority = "LOWEST"  # the others have prepared model and data

    def before_train(self, runner: Runner) -> None:
        """Take the place of the loader."""
        self.runner = runner
        self.model = unwrap(runner.model)
        self.loader = runner.train_dataloader
        self.model.fill_queues()
        self.device = get_device()
        self.synchronize = torch.get_device_module(self.device).synchronize
        self.clock = PhaseClock(synchronize=self.synchronize)
        for name, part in (
            ("backward", phases.HEADS_BACKWARD),
            ("step", phases.OPTIMIZER),
            ("zero_grad", phases.OPTIMIZER),
        ):
            # mmengine's, so it cannot open a phase itself; nobody uses it after this run.
            method = getattr(runner.optim_wrapper, name)
            setattr(runner.optim_wrapper, name, self.clock.phase(part)(method))
        runner.train_loop.dataloader = _Batches(self.loader, self._load_and_step())

    def steps(self, batches: Iterator[dict]) -> Iterator[dict]:
        """Yield the batches of all steps.

        Args:
            batches: Endless.
        """
        raise NotImplementedError

    def choose_threads(self, batches: Iterator[dict]) -> Generator[dict, None, float | None]:
        """Take steps with all threads and with one in turns, and go on with the faster number.

        Beside other work, and where a container may use less than a core of each thread, the others
        wait for the slowest one, and one alone can be faster. Medians are compared, since other
        work can make a single step ten times as long.

        Args:
            batches: Endless.

        Returns:
            Median seconds of a step with the chosen number; None where there is no choice: on a
            device, with several processes, or where the user or the config gives the number.
        """
        everything = torch.get_num_threads()
        if everything == 1 or self.device != "cpu" or get_world_size() > 1:
            return None
        if "OMP_NUM_THREADS" in os.environ or self.runner.cfg.get("num_threads"):
            return None
        times: dict[int, list[int]] = {everything: [], 1: []}
        start = time.perf_counter()
        while time.perf_counter() - start < (
            _COMPARING_S if len(times[1]) >= _ROUNDS else _LONGEST_S
        ):
            for number, of_number in times.items():
                torch.set_num_threads(number)
                with self.clock.step() as phases:
                    yield next(batches)
                of_number.append(phases.total())
        of_all, of_one = median(times[everything]), median(times[1])
        chosen, step_ns = (1, of_one) if of_all * _LEAST_GAIN > of_one else (everything, of_all)
        torch.set_num_threads(chosen)
        return step_ns / 1e9

    def checkpoint_bytes(self, num_processes: int) -> int:
        """Return the size of a checkpoint of so many processes: model, queues and optimizer."""
        # AdamW counts its steps in tensors, other optimizers in numbers.
        of_parameters = self.runner.optim_wrapper.optimizer.state.values()
        values = [value for state in of_parameters for value in state.values()]
        num_bytes = sum(value.nbytes for value in values if isinstance(value, torch.Tensor))
        return num_bytes + self.model.checkpoint_bytes(num_processes)

    def backbone_bytes(self) -> int:
        """Return the size of the backbone's weights."""
        return sum(value.nbytes for value in self.model.backbone.state_dict().values())

    def _load_and_step(self) -> Iterator[dict]:
        dataset = self.loader.dataset
        world_size = get_world_size()
        # The first images once more, as the sampler does: every process takes equally many.
        share = ceil(len(dataset) / world_size)
        order = np.resize(np.random.default_rng(0).permutation(len(dataset)), share * world_size)
        self.loader_cost, batches = measure_loader(
            dataset,
            order[get_rank() :: world_size].tolist(),
            self.loader.collate_fn,
            batch_size=self.loader.batch_size,
            use_workers=self.loader.num_workers > 0,
        )
        if self.loader.pin_memory and self.device.startswith("cuda"):
            batches = [{"inputs": [t.pin_memory() for t in batch["inputs"]]} for batch in batches]
        with phases.timed_by(self.clock):
            yield from self.steps(cycle(batches))
        self.runner.train_loop.stop_training = True


class _Batches(Prefetcher):
    """The loader but for its batches."""

    def __init__(self, loader: Any, batches: Iterator[dict]) -> None:
        self.loader = loader
        self._batches = batches

    def __iter__(self) -> Iterator[dict]:
        return self._batches
