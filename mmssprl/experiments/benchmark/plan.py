"""From the arguments of the benchmark to runs: one config and its commands each."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from ...config.run_checks import check_config, missing_package
from ...config.shipped import shipped
from ...engine.adapted_backbone import adapt_backbone
from ...engine.initial_weights import apply_weights
from ...errors import UserFileNotFoundError, UserValueError
from ...system.outputs import write_whole
from ...weights import RANDOM, SUPERVISED
from ..commands import CommandRun
from ..execute import execute_runs, with_needs
from .protocols import DATA_PREFIX, PROTOCOLS, REMEDIES, Protocol
from .results import Size, TransferResult
from .rows import Weights
from .run import TransferRun

_PRETRAINING = "semisup-100"
"""The protocol that trains on all labels: from random weights it is supervised pre-training."""


@dataclass(frozen=True)
class BenchmarkPlan:
    """What is to be run.

    Args:
        runs: In their order; those that start from weights trained here need that training.
        skipped: Runs that cannot be made here, with the reason.
    """

    runs: tuple[TransferRun, ...]
    skipped: tuple[TransferResult, ...]

    def execute(self, **how: Any) -> list[TransferResult]:
        """Do ``execute_runs``, and return one result per run, the skipped ones included."""
        outcomes = execute_runs(self.runs, **how)
        done = [run.result(outcome) for run, outcome in zip(self.runs, outcomes, strict=True)]
        return [*done, *self.skipped]

    def shell_lines(self) -> list[str]:
        """Return a line for a shell for each run, those that others need first."""
        needed = [run for run in with_needs(self.runs) if run not in self.runs]
        return [run.shell_line() for run in [*needed, *self.runs] if isinstance(run, CommandRun)]


def make_plan(
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

    Args:
        weights: Rows of the table.
        protocols: Columns of the table.
        size: Of the data.
        data: Folder that replaces the prefix of the configs' ``data_root``.
        work_dir: Configs go to ``configs/`` in it, runs to ``runs/``.
        num_seeds: Trainings of each pair, with seeds 0, 1, ...
        num_gpus: Processes that detection and segmentation share their images among.
        writes: Whether the configs are written.
        data_follow: Whether the data are still to be generated.

    Raises:
        FileNotFoundError: Data that are not there, all of them, with what makes them.
        ValueError: Weights that do not fit, or images that cannot be shared among the GPUs.
    """
    runs: list[TransferRun] = []
    skipped: list[TransferResult] = []
    missing: dict[str, str] = {}
    needs: dict[str, CommandRun] = {}
    configs: dict[Path, Config] = {}
    rows = list(weights)
    for index, row in enumerate(rows):
        if row.start == SUPERVISED and size != "paper":  # at full size there are torchvision's
            protocol = next(p for p in PROTOCOLS[size] if p.name == _PRETRAINING)
            start = replace(row, start=RANDOM)
            cfg = _make_config(protocol, start, size=size, data=data, num_gpus=num_gpus)
            missing |= _find_missing(cfg, size, data)
            needs[row.name] = training = _plan_training(cfg, work_dir, configs)
            last = training.folder / f"epoch_{cfg.train_cfg.max_epochs}.pth"
            rows[index] = replace(row, start=str(last))
    for seed in range(num_seeds):
        for protocol in protocols:
            for row in rows:
                reason = _why_not(protocol, row)
                if reason:
                    run_of = (protocol.name, row.name, seed)
                    skipped.append(TransferResult(*run_of, {}, 0.0, "skipped", reason))
                    continue
                cfg = _make_config(protocol, row, size=size, data=data, num_gpus=num_gpus)
                cfg.randomness.seed = seed
                if seed == 0:
                    missing |= _find_missing(cfg, size, data)
                    if row.name not in needs:  # or else its file is still to be made
                        apply_weights(cfg.copy(), None, adapt=False)
                run = _plan_run(cfg, protocol, row.name, seed, work_dir, num_gpus)
                configs[run.config] = cfg
                if row.name in needs:
                    run = replace(run, needs=(needs[row.name],))
                runs.append(run)
    if missing and not data_follow:
        lines = "\n".join(f"  {problem}\n    {remedy}" for problem, remedy in missing.items())
        raise UserFileNotFoundError(
            f"the data of all protocols must be there, but some are not:\n{lines}\n"
            "give their folder by --data, or choose other --protocols."
        )
    if writes:
        for path, cfg in configs.items():
            _write_config(cfg, path)
    return BenchmarkPlan(tuple(runs), tuple(skipped))


def _why_not(protocol: Protocol, row: Weights) -> str:
    cfg = Config.fromfile(shipped(protocol.config))
    missing = missing_package(cfg.default_scope)
    if missing:
        return f"needs {missing}; see requirements/transfer.txt"
    if row.backbone is not None:
        try:
            adapt_backbone(cfg, row.backbone)
        except ValueError as error:
            return str(error)
    return ""


def _plan_training(cfg: Config, work_dir: Path, configs: dict[Path, Config]) -> CommandRun:
    """BenchmarkPlan the supervised pre-training, whose test is not asked for."""
    folder = work_dir / "runs" / "supervised_pretraining"
    config = work_dir / "configs" / "supervised_pretraining.py"
    configs[config] = cfg
    train, _ = _commands(config, folder, num_processes=1)
    name = "supervised pre-training"
    return CommandRun(name=name, kind=_PRETRAINING, folder=folder, commands=(train,))


def _plan_run(
    cfg: Config, protocol: Protocol, weights: str, seed: int, work_dir: Path, num_gpus: int
) -> TransferRun:
    folder = work_dir / "runs" / weights / protocol.name / f"seed{seed}"
    config = work_dir / "configs" / f"{weights}_{protocol.name}_seed{seed}.py"
    return TransferRun(
        name=f"{protocol.name}, {weights}, seed {seed}",
        kind=protocol.name,
        folder=folder,
        commands=_commands(config, folder, num_gpus if protocol.images_per_step else 1),
        protocol=protocol,
        weights=weights,
        seed=seed,
        config=config,
    )


def _make_config(
    protocol: Protocol, row: Weights, *, size: Size, data: Path, num_gpus: int
) -> Config:
    """Return the protocol's config with a row's backbone and start, and the user's data."""
    cfg = Config.fromfile(shipped(protocol.config))
    cfg.weights = row.start
    if row.backbone is not None:
        adapt_backbone(cfg, row.backbone)
    _relocate(cfg, DATA_PREFIX[size], str(data.resolve()))
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


def _find_missing(cfg: Config, size: Size, data: Path) -> dict[str, str]:
    """Return what a config needs and does not find, with what makes it; nothing if all is there."""
    try:
        check_config(cfg, ("train", "test"))
    except FileNotFoundError as error:
        problem = str(error).removeprefix(f"{cfg.filename}: ")
        for part, remedy in REMEDIES[size].items():
            if str(data.resolve() / part) in problem:
                return {problem: remedy.format(shlex.quote(str(data)))}
        return {problem: "see docs/data.md"}
    return {}


def _write_config(cfg: Config, path: Path) -> None:
    """Write a config that needs no other file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Config.dump formats by yapf, which takes a minute for a hundred runs.
    items = cfg.to_dict().items()
    text = "".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items)
    # Whole at any moment: tasks of a cluster may be reading the config of the same call before.
    write_whole(path, text)


def _commands(
    config: Path, folder: Path, num_processes: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that train and test, each of which goes on where it was stopped."""
    python, launcher = [sys.executable], []
    if num_processes > 1:
        python += [str(shipped("tools/launch.py")), "--standalone"]
        python += [f"--nproc_per_node={num_processes}"]
        launcher = ["--launcher", "pytorch"]
    where = ["--work-dir", str(folder), *launcher]
    train = [*python, str(shipped("tools/train.py")), str(config), *where, "--resume"]
    out = ["--out", str(folder / "metrics.json"), "--force"]
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
