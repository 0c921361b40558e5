"""A pre-training that is measured: the ordinary runner, on a few batches from memory."""

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count, cycle
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dist import broadcast, get_rank, get_world_size
from mmengine.optim import AmpOptimWrapper
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_map

from ..config.reading import read_config_file
from ..engine.launch import prepare_train_config
from ..errors import UserValueError
from ..functional import phases
from ..models import is_pretraining
from ..models.unwrap import unwrap
from ..saving.checkpoint_hooks import checkpoint_bytes
from ..system.environment import describe_machine, peak_bytes, reset_peak_bytes, usable_cores
from .result import Profile, Setting, typical
from .stopwatch import Stopwatch, choose_threads, measure_loader

LEAST_STEPS = 3  # those that a forecast is made of
_TIMED_STEP_S = 11.25
"""Steps that may have few images are made so small that they are likely to end in it: three timed
steps and one to warm up take 45 s."""
_COMPARED_STEP_S = 0.5  # the same for the steps that compare numbers of threads
_ENDLESS = 10**6  # epochs: more steps may be measured than the training has
_WITHOUT_HOOKS = ("ProbeHook", "ContinuationHook")
_WITHOUT = ("runtime_info", "timer", "logger", "param_scheduler", "checkpoint", "sampler_seed")


def read_config(
    config: str | Path,
    *,
    work_dir: str,
    data: str | Path | None = None,
    cfg_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Config:
    """Read a pre-training config as ``prepare_train_config`` does; ``data`` is its data_root."""
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
    """Make a config one for any number of steps that leave nothing behind, without its probe.

    The whole network learns in them, as in most of a training that goes on from weights.
    """
    cfg = copy.deepcopy(cfg)
    hooks = cfg.get("custom_hooks") or []
    cfg.custom_hooks = [hook for hook in hooks if hook["type"] not in _WITHOUT_HOOKS]
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


@dataclass(eq=False)
class MeasuringHook(Stopwatch):
    """Times steps of a pre-training on batches from memory, and makes a ``profile`` of them.

    The images are loaded first, so a step never waits for its loader, and the queues are full. The
    model tells the clock its phases: a backward pass counts as ``HEADS_BACKWARD`` until it goes on
    as the backbone's, with the gradients' all-reduce. If it ``forecasts``, steps that would take
    too long have fewer images. ``num_devices`` (0: as many as are measured) will train.
    """

    whole: Config
    most: int
    max_seconds: float
    forecasts: bool = False
    num_devices: int = 0
    load: float = 0.0
    log: Callable[[str], object] = lambda line: None
    profile: Profile = field(init=False)

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
        """Yield batches to warm up, for the steps under the clock, and for as many without it."""
        full = self.loader.batch_size
        unit = min(full, self.model.batch_unit(self.runner.cfg.model)) if self.forecasts else full
        self.log(
            f"3 steps to warm up, then {self.most} to measure, in {self.max_seconds:.0f} s at most"
        )

        def batch(images: int) -> dict:
            return tree_map(lambda part: part[:images], next(batches))

        def fitting(step_s: float) -> int:
            """Return how many images a step of so many seconds has: whole units, up to all."""
            return max(unit, min(full, int(step_s / unit_s * unit) // unit * unit))

        with saved_bytes(self.runner.model) as counts:
            yield batch(unit)  # compiles as well
        with self.clock.step() as first:
            yield batch(unit)
        unit_s = first.total() / 1e9
        few = fitting(_COMPARED_STEP_S)
        few_s = yield from choose_threads(self, (batch(few) for _ in count()))
        if few_s is not None:
            unit_s = few_s * unit / few
        images = fitting(_TIMED_STEP_S)
        reset_peak_bytes(self.device)
        yield batch(images)  # allocates for this size
        times: list[Mapping[str, int]] = []
        least = LEAST_STEPS if self.forecasts else 1
        deadline = time.perf_counter() + self.max_seconds
        while len(times) < self.most and (len(times) < least or self._in_time(deadline)):
            with self.clock.step() as of_phases:
                yield batch(images)
            times.append(of_phases)
        if len(times) < self.most:
            self.log(f"only {len(times)} of {self.most} steps fit into {self.max_seconds:.0f} s")
        step_ms = typical(times)
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
            loader_ms=self.loader_ms,
            step_ms=step_ms,
            free_step_ms=free_step_ms,
            activation_bytes=counts[0] * images // unit,
            peak_bytes=peak_bytes(self.device),
            checkpoint_bytes=checkpoint_bytes(self.runner, self.num_devices),
            backbone_bytes=sum(each.nbytes for each in self.model.backbone.state_dict().values()),
        )

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
        self.loader_ms, batches = measure_loader(
            dataset,
            order[get_rank() :: world_size].tolist(),
            self.loader.collate_fn,
            batch_size=self.loader.batch_size,
        )
        if self.loader.pin_memory and self.device.startswith("cuda"):
            batches = [tree_map(Tensor.pin_memory, batch) for batch in batches]
        return batches

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
            precision=str(wrapper.cast_dtype).removeprefix("torch.") if is_amp else "float32",
            device=self.device,
            threads=torch.get_num_threads(),
            load=self.load,
            cores=usable_cores() / int(os.environ.get("LOCAL_WORLD_SIZE", self.num_devices)),
            machine=describe_machine(self.device),
        )


@contextmanager
def saved_bytes(module: nn.Module) -> Iterator[list[int]]:
    """Put the bytes that the forward pass inside keeps for its backward pass into a list.

    A storage counts once and whole; the module's own do not, nor what is computed again.
    """
    saved: dict[int, int] = {}
    counts: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield counts
    for own in chain(module.parameters(), module.buffers()):
        saved.pop(own.untyped_storage().data_ptr(), None)
    counts.append(sum(saved.values()))
