"""From the options of the benchmark to runs, each with its config and commands."""

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
from ..options import BenchmarkOptions
from ..run import Run
from .protocols import DATA_PREFIX, PROTOCOLS, Protocol, TransferRun, Weights

_PRETRAINING = "semisup-100"
"""The protocol that trains on all labels; from random weights it is supervised pre-training."""


@dataclass(frozen=True)
class BenchmarkPlan:
    """The runs, and the ``trainings`` here that they start from, by the name of the row."""

    runs: tuple[TransferRun, ...]
    trainings: Mapping[str, Run] = field(default_factory=dict)

    @property
    def waiting(self) -> list[Run]:
        """The trainings that incomplete runs still wait for."""
        needed = {run.weights for run in self.runs if not run.is_complete}
        found = (training for name, training in self.trainings.items() if name in needed)
        return [training for training in found if not training.is_complete]

    def shell_lines(self) -> list[str]:
        """Return a line for a shell for each run, trainings first."""
        return [run.shell_line() for run in (*self.waiting, *self.runs)]


def plan_benchmark(
    weights: Sequence[Weights],
    protocols: Sequence[Protocol],
    asked: BenchmarkOptions,
    *,
    data: Path,
    work_dir: Path,
    data_follow: bool = False,
) -> BenchmarkPlan:
    """Check whatever can be checked before the runs, and write their configs.

    ``data`` replaces the prefix of the configs' ``data_root``; with ``data_follow`` it may not
    exist yet. Configs go to ``configs/`` of the work dir, runs to ``runs/``; a dry run writes none.
    """

    def config_of(protocol: Protocol, row: Weights) -> Config:
        """Return the protocol's config with a row's backbone and start."""
        cfg = Config.fromfile(shipped(protocol.config))
        cfg.weights = row.start
        if row.backbone is not None:
            adapt_backbone(cfg, row.backbone)
        if protocol.images_per_step:
            if protocol.images_per_step % asked.gpus:
                raise UserValueError(
                    f"--gpus must divide the {protocol.images_per_step} images per step of "
                    f"{protocol.name}, but got {asked.gpus}."
                )
            cfg.train_dataloader.batch_size = protocol.images_per_step // asked.gpus
        # The final test is a separate command, which a stopped run can repeat.
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
        return cfg

    configs: dict[Path, Config] = {}

    def add(cfg: Config, name: str, *, checks: bool = True) -> Path:
        """Add a config that reads the user's data."""
        _relocate(cfg, DATA_PREFIX[asked.size], str(data.resolve()))
        path = work_dir / "configs" / f"{name}.py"
        configs[path] = cfg
        if checks:
            try:
                check_config(cfg, ("train", "test"))
            except FileNotFoundError as error:
                if data_follow:
                    return path
                fault = str(error).removeprefix(f"{cfg.filename}: ")
                raise UserFileNotFoundError(
                    f"{fault} Or give the folder of all data by --data."
                ) from None
        return path

    trainings: dict[str, Run] = {}
    rows = list(weights)
    for index, row in enumerate(rows):
        # Files of a pre-training have the name of its config.
        if row.pretrained_by:
            cfg = copy.deepcopy(row.pretrained_by)
            name = stem = Path(cfg.filename).stem
            last = f"{name}_backbone.pth"
        elif row.start == SUPERVISED and asked.size != "paper":  # torchvision's at full size
            protocol = next(p for p in PROTOCOLS[asked.size] if p.name == _PRETRAINING)
            cfg = config_of(protocol, replace(row, start=RANDOM))
            name, stem = SUPERVISED, f"{SUPERVISED}_pretraining"
            last = f"epoch_{cfg.train_cfg.max_epochs}.pth"
        else:
            continue
        folder = work_dir / "runs" / f"{name}_pretraining"
        train, _ = _commands(add(cfg, stem), folder, 1)
        trainings[row.name] = Run(
            name=f"{name} pre-training", folder=folder, commands=(train,), measures=""
        )
        rows[index] = replace(row, start=str(folder / last))
    runs: list[TransferRun] = []
    for seed in range(asked.seeds):
        for protocol in protocols:
            for row in rows:
                cfg = config_of(protocol, row)
                cfg.randomness.seed = seed
                config = add(cfg, f"{row.name}_{protocol.name}_seed{seed}", checks=seed == 0)
                if seed == 0 and row.name not in trainings:
                    apply_weights(cfg.copy(), None, adapt=False)  # refuses what the run would
                folder = work_dir / "runs" / row.name / protocol.name / f"seed{seed}"
                num_processes = asked.gpus if protocol.images_per_step else 1
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
    for path, cfg in () if asked.dry_run else configs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Config.dump formats with yapf, which takes a minute for a hundred runs.
        items = cfg.to_dict().items()
        text = "".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items)
        # Atomic: tasks of a cluster may be reading the config of an earlier call.
        write_whole(path, text)
    return BenchmarkPlan(tuple(runs), trainings)


def _commands(
    config: Path, folder: Path, num_processes: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that train and test; each resumes where it was stopped."""
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
    """Replace ``prefix`` in all paths of loaders and evaluators."""

    def visit(node: Any) -> None:
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            if isinstance(value, str) and value.startswith(f"{prefix}/"):
                node[key] = folder + value.removeprefix(prefix)
            elif isinstance(value, (Mapping, list)):
                visit(value)

    for split in ("train", "test"):
        for part in ("dataloader", "evaluator"):
            visit([cfg.get(f"{split}_{part}") or {}])
