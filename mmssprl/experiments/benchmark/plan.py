"""From the arguments of the benchmark to runs: one config and its commands each."""

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from ...config.run_checks import check_config
from ...config.shipped import shipped
from ...engine.initial_weights import adapt_backbone, apply_weights
from ...errors import UserFileNotFoundError, UserValueError
from ...system.outputs import write_whole
from ...weights import RANDOM, SUPERVISED
from ..run import Run
from .protocols import DATA_PREFIX, PROTOCOLS, Protocol, Size, TransferRun, Weights

_PRETRAINING = "semisup-100"
"""The protocol that trains on all labels: from random weights it is supervised pre-training."""


@dataclass(frozen=True)
class BenchmarkPlan:
    """What is to be run.

    ``trainings`` are those done here, by the name of the row that begins with what they leave.
    """

    runs: tuple[TransferRun, ...]
    trainings: Mapping[str, Run] = field(default_factory=dict)

    @property
    def waiting(self) -> list[Run]:
        """The trainings that are still to be done for runs."""
        needed = {run.weights for run in self.runs if not run.is_complete}
        found = (training for name, training in self.trainings.items() if name in needed)
        return [training for training in found if not training.is_complete]

    def shell_lines(self) -> list[str]:
        """Return a line for a shell for each run, those that others need first."""
        return [run.shell_line() for run in (*self.waiting, *self.runs)]


def plan_benchmark(
    weights: Sequence[Weights],
    protocols: Sequence[Protocol],
    *,
    size: Size,
    data: Path,
    work_dir: Path,
    num_seeds: int,
    num_gpus: int = 1,
    writes: bool = True,
    data_follow: bool = False,
) -> BenchmarkPlan:
    """Check everything that can be known beforehand, and write the configs.

    ``data`` replaces the prefix of the configs' ``data_root``; with ``data_follow`` it is still to
    be generated. ``num_gpus`` processes share the images of detection and segmentation. Configs go
    to ``configs/`` of the work dir, runs to ``runs/``.
    """

    def config_of(protocol: Protocol, row: Weights) -> Config:
        """Return the protocol's config with a row's backbone and start."""
        cfg = Config.fromfile(shipped(protocol.config))
        cfg.weights = row.start
        if row.backbone is not None:
            adapt_backbone(cfg, row.backbone)
        if protocol.images_per_step:
            if protocol.images_per_step % num_gpus:
                raise UserValueError(
                    f"--gpus must divide the {protocol.images_per_step} images of a step of "
                    f"{protocol.name}, but got {num_gpus}."
                )
            cfg.train_dataloader.batch_size = protocol.images_per_step // num_gpus
        # The test at the end is a command of its own, which a stopped run can repeat.
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
        return cfg

    configs: dict[Path, Config] = {}

    def add(cfg: Config, name: str, *, checks: bool = True) -> Path:
        """Add a config that reads the user's data, once they are known to be there."""
        _relocate(cfg, DATA_PREFIX[size], str(data.resolve()))
        path = work_dir / "configs" / f"{name}.py"
        configs[path] = cfg
        if checks:
            try:
                check_config(cfg, ("train", "test"))
            except FileNotFoundError as error:
                if data_follow:
                    return path
                told = str(error).removeprefix(f"{cfg.filename}: ")
                raise UserFileNotFoundError(
                    f"{told} Or give the folder of all data by --data."
                ) from None
        return path

    trainings: dict[str, Run] = {}
    rows = list(weights)
    for index, row in enumerate(rows):
        # Files of a pre-training bear the name of its config.
        if row.pretrained_by:
            cfg = copy.deepcopy(row.pretrained_by)
            name = stem = Path(cfg.filename).stem
            last = f"{name}_backbone.pth"
        elif row.start == SUPERVISED and size != "paper":  # at full size there are torchvision's
            protocol = next(p for p in PROTOCOLS[size] if p.name == _PRETRAINING)
            cfg = config_of(protocol, replace(row, start=RANDOM))
            name, stem = SUPERVISED, f"{SUPERVISED}_pretraining"
            last = f"epoch_{cfg.train_cfg.max_epochs}.pth"
        else:
            continue
        folder = work_dir / "runs" / f"{name}_pretraining"
        trainings[row.name] = Run(
            name=f"{name} pre-training",
            folder=folder,
            commands=_commands(add(cfg, stem), folder, 1)[:1],  # its test tells nothing
            measures="",
        )
        rows[index] = replace(row, start=str(folder / last))
    runs: list[TransferRun] = []
    for seed in range(num_seeds):
        for protocol in protocols:
            for row in rows:
                cfg = config_of(protocol, row)
                cfg.randomness.seed = seed
                config = add(cfg, f"{row.name}_{protocol.name}_seed{seed}", checks=seed == 0)
                if seed == 0 and row.name not in trainings:  # whose file is still to be made
                    apply_weights(cfg.copy(), None, adapt=False)
                folder = work_dir / "runs" / row.name / protocol.name / f"seed{seed}"
                num_processes = num_gpus if protocol.images_per_step else 1
                runs.append(
                    TransferRun(
                        name=f"{protocol.name}, {row.name}, seed {seed}",
                        folder=folder,
                        commands=_commands(config, folder, num_processes),
                        protocol=protocol,
                        weights=row.name,
                        seed=seed,
                        config=config,
                    )
                )
    for path, cfg in configs.items() if writes else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Config.dump formats by yapf, which takes a minute for a hundred runs.
        items = cfg.to_dict().items()
        text = "".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items)
        # Whole at any moment: tasks of a cluster may be reading the config of the call before.
        write_whole(path, text)
    return BenchmarkPlan(tuple(runs), trainings)


def _commands(
    config: Path, folder: Path, num_processes: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that train and test, each of which resumes where it was stopped."""
    python, launcher = [sys.executable], []
    if num_processes > 1:
        python += [str(shipped("tools/launch.py")), "--standalone"]
        python += [f"--nproc_per_node={num_processes}"]
        launcher = ["--launcher", "pytorch"]
    where = ["--work-dir", str(folder), *launcher]
    train = [*python, str(shipped("tools/train.py")), str(config), *where, "--resume"]
    out = ["--out", str(folder / "metrics.json"), "--overwrite"]
    test = [*python, str(shipped("tools/test.py")), str(config), str(folder), *where, *out]
    return tuple(train), tuple(test)


def _relocate(cfg: Config, prefix: str, folder: str) -> None:
    """Replace the beginning of every path below ``prefix`` in loaders and evaluators."""

    def visit(node: Any) -> None:
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            if isinstance(value, str) and value.startswith(f"{prefix}/"):
                node[key] = folder + value.removeprefix(prefix)
            elif isinstance(value, (Mapping, list)):
                visit(value)

    for split in ("train", "test"):
        for part in ("dataloader", "evaluator"):
            visit([cfg.get(f"{split}_{part}") or {}])
