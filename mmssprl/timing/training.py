"""A pre-training that is measured: the ordinary runner, on a few batches from memory."""

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from itertools import count, cycle
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dist import broadcast, get_rank, get_world_size
from mmengine.optim import AmpOptimWrapper
from mmengine.runner import Runner

from ..config.reading import read_config_file
from ..engine.launch import prepare_train_config
from ..errors import UserValueError
from ..functional import phases
from ..models import is_pretraining
from ..models.unwrap import unwrap
from ..system.environment import describe_machine, peak_bytes, reset_peak_bytes, usable_cores
from .loader_phases import measure_loader
from .pace import fitting_images
from .result import Profile, Setting, mean_phases
from .saved_bytes import saved_bytes
from .stopwatch import Stopwatch
from .threads import choose_threads

_COMPARED_STEP_S = 0.5
"""About as long take the steps that compare numbers of threads, where few images do."""
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


def for_measuring(cfg: Config, *, validates: bool = False) -> Config:
    """Make a config one for steps from random weights that leave nothing behind, and no probe.

    However few steps the training has, any number can be measured.

    Args:
        cfg: Of a training.
        validates: Keep its validation, but never begin it.
    """
    cfg = copy.deepcopy(cfg)
    hooks = cfg.get("custom_hooks") or []
    cfg.custom_hooks = [hook for hook in hooks if hook["type"] != "ProbeHook"]
    cfg.default_hooks = dict.fromkeys(_WITHOUT)  # None takes a hook away
    cfg.param_scheduler = None
    if validates:
        cfg.train_cfg.val_interval = _ENDLESS
    else:
        cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.load_from, cfg.resume = None, False
    cfg.train_dataloader.drop_last = True
    if "max_epochs" in cfg.train_cfg:
        cfg.train_cfg.max_epochs = _ENDLESS
    cfg.randomness = {"seed": 0}  # the same augmentations, so the same work, in every run
    cfg.log_level = "WARNING"
    cfg.experiment_name = Path(cfg.work_dir).name  # two runs of one name would share their files
    return cfg


class MeasuringHook(Stopwatch):
    """Times steps of a pre-training on batches from memory, and makes a ``profile`` of them.

    The images are loaded first, on one thread, so a step never waits for its loader. The model
    tells the clock its phases (``functional.phases``), and the hook those of the optimizer: the
    backward pass counts as ``HEADS_BACKWARD`` until the model says that it goes on as the
    backbone's, ``OPTIMIZER`` is ``step`` and ``zero_grad``. The gradients' all-reduce runs inside
    the backward; of several processes odd steps leave it out. Queues are full and in use from the
    first step on, as for most of a training.

    Args:
        whole: Config of the training that is measured.
        least: Steps that are timed at least.
        most: At most.
        max_seconds: After which none begins, but for the least number.
        takes_few: Let a step have only so many images that the least steps end in
            ``TIME_LIMIT_S``, in place of all of the loader's batch.
        num_devices: Processes that will train; 0 takes those that are measured.
        load: Processes that wanted a core in the minute before.
        log: Receives lines of progress.
    """

    profile: Profile

    def __init__(
        self,
        whole: Config,
        *,
        least: int,
        most: int,
        max_seconds: float,
        takes_few: bool = False,
        num_devices: int = 0,
        load: float = 0.0,
        log: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.whole, self.least, self.most, self.max_seconds = whole, least, most, max_seconds
        self.takes_few, self.load, self.log = takes_few, load, log
        self.num_devices = num_devices

    def before_train(self, runner: Runner) -> None:
        """Fill the queues, let the clock listen, and take the place of the loader."""
        super().before_train(runner)
        self.num_devices = self.num_devices or get_world_size()
        self.model = unwrap(runner.model)
        self.model.fill_queues()
        for name, part in (
            ("backward", phases.HEADS_BACKWARD),
            ("step", phases.OPTIMIZER),
            ("zero_grad", phases.OPTIMIZER),
        ):
            # mmengine's, so it cannot open a phase itself; nobody uses it after this run.
            method = getattr(runner.optim_wrapper, name)
            setattr(runner.optim_wrapper, name, self.clock.phase(part)(method))

    def steps(self) -> Iterator[dict]:
        """Load some batches, and yield them in turn."""
        batches = cycle(self._load())
        with phases.timed_by(self.clock):
            yield from self.measured_steps(batches)

    def measured_steps(self, batches: Iterator[dict]) -> Iterator[dict]:
        """Yield batches to warm up, for the steps under the clock, and for as many without it.

        Args:
            batches: Endless.
        """
        full = self.loader.batch_size
        unit = min(full, self.model.batch_unit(self.runner.cfg.model)) if self.takes_few else full
        self.log(
            f"{self.loader_cost.num_images} images loaded; 3 steps to warm up, then {self.most} to "
            f"measure, in {self.max_seconds:.0f} s at most"
        )

        def batch(images: int) -> dict:
            return {"inputs": [part[:images] for part in next(batches)["inputs"]]}

        with saved_bytes(self.runner.model) as counts:
            yield batch(unit)  # compiles as well
        with self.clock.step() as first:
            yield batch(unit)
        unit_s = first.total() / 1e9
        few = fitting_images(unit_s, unit, full, unit, _COMPARED_STEP_S)
        few_s = yield from choose_threads(self, (batch(few) for _ in count()))
        if few_s is not None:
            unit_s = few_s * unit / few
        images = fitting_images(unit_s, unit, full, unit)
        reset_peak_bytes(self.device)
        yield batch(images)  # allocates for this size
        times: list[Mapping[str, int]] = []
        yield from self.timed_steps((batch(images) for _ in count()), times)
        if len(times) < self.most:
            self.log(f"only {len(times)} of {self.most} steps fit into {self.max_seconds:.0f} s")
        step_ms = mean_phases(times, get_world_size())
        free_step_ms = sum(step_ms.values())
        if self.device != "cpu":
            start = time.perf_counter()
            for _ in times:
                yield batch(images)
            self.synchronize()
            free_step_ms = 1000 * (time.perf_counter() - start) / len(times)
        self.profile = Profile(
            setting=self._setting(images),
            num_steps=len(times),
            loader=self.loader_cost,
            step_ms=step_ms,
            free_step_ms=free_step_ms,
            activation_bytes=counts[0] * images // unit,
            peak_bytes=peak_bytes(self.device),
            checkpoint_bytes=self._checkpoint_bytes(),
            backbone_bytes=sum(each.nbytes for each in self.model.backbone.state_dict().values()),
        )

    def timed_steps(
        self, batches: Iterator[dict], times: list[Mapping[str, int]]
    ) -> Iterator[dict]:
        """Yield batches, and append the nanoseconds per phase of each step to ``times``."""
        deadline = time.perf_counter() + self.max_seconds
        while len(times) < self.most and (len(times) < self.least or self._in_time(deadline)):
            is_local = get_world_size() > 1 and len(times) % 2 == 1
            no_all_reduce = self.runner.model.no_sync() if is_local else nullcontext()
            with no_all_reduce, self.clock.step() as of_phases:
                yield next(batches)
            times.append(of_phases)

    def _in_time(self, deadline: float) -> bool:
        """Rank 0's clock decides for all."""
        decision = torch.tensor(float(time.perf_counter() < deadline), device=self.device)
        broadcast(decision)
        return bool(decision)

    def _load(self) -> list[dict]:
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
        )
        if self.loader.pin_memory and self.device.startswith("cuda"):
            batches = [{"inputs": [t.pin_memory() for t in batch["inputs"]]} for batch in batches]
        return batches

    def _checkpoint_bytes(self) -> int:
        """Return the size of a checkpoint of all processes: model, queues and optimizer."""
        # AdamW counts its steps in tensors, other optimizers in numbers.
        of_parameters = self.runner.optim_wrapper.optimizer.state.values()
        values = [value for state in of_parameters for value in state.values()]
        num_bytes = sum(value.nbytes for value in values if isinstance(value, torch.Tensor))
        return num_bytes + self.model.checkpoint_bytes(self.num_devices)

    def _setting(self, images: int) -> Setting:
        wrapper, loader = self.runner.optim_wrapper, self.loader
        is_amp = isinstance(wrapper, AmpOptimWrapper)
        return Setting(
            config=str(self.runner.cfg.filename),
            data=str(Path(loader.dataset.data_prefix["img_path"])),
            num_images=len(loader.dataset),
            batch_size=images,
            config_batch_size=self.whole.train_dataloader.batch_size,
            max_epochs=self.whole.train_cfg.get("max_epochs"),
            checkpoint=dict(self.whole.default_hooks.checkpoint or {}),
            num_processes=self.num_devices,
            num_workers=loader.num_workers,
            num_small=getattr(self.model.layout, "num_small", 0),
            precision=str(wrapper.cast_dtype).removeprefix("torch.") if is_amp else "float32",
            device=self.device,
            threads=torch.get_num_threads(),
            load=self.load,
            cores=usable_cores() / int(os.environ.get("LOCAL_WORLD_SIZE", self.num_devices)),
            machine=describe_machine(self.device),
        )
