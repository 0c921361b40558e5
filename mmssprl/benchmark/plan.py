"""From the arguments of the benchmark to runs: one config and its commands each."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from ..engine.adapted_backbone import adapt_backbone
from ..engine.checks import check_config, missing_package
from ..engine.initial_weights import apply_weights
from ..errors import UserFileNotFoundError, UserValueError
from ..shipped import shipped
from .protocols import DATA, PROTOCOLS, Protocol
from .results import Profile, Result

SUPERVISED = "supervised"
_PRETRAINING = "semisup-100"
"""The protocol that trains on all labels: from random weights it is supervised pre-training."""


@dataclass(frozen=True)
class Weights:
    """A row of the table.

    Args:
        name: As printed.
        start: 'random', 'supervised' or a file.
        backbone: ``model.backbone`` of its pre-training config; None keeps each protocol's own.
    """

    name: str
    start: str
    backbone: Mapping[str, Any] | None


@dataclass(frozen=True)
class Run:
    """One training and the test of what it ends with.

    Args:
        protocol: What is trained and measured.
        weights: Name of the weights it starts from.
        seed: Of the training.
        config: Written for this run.
        folder: Of logs, checkpoints, ``metrics.json`` and ``result.json``.
        commands: Training, then test; each goes on where it was stopped.
    """

    protocol: Protocol
    weights: str
    seed: int
    config: Path
    folder: Path
    commands: tuple[tuple[str, ...], ...]

    @property
    def metrics_file(self) -> Path:
        """Written by the test."""
        return self.folder / "metrics.json"

    @property
    def result_file(self) -> Path:
        """Written last: its presence means that the run is complete."""
        return self.folder / "result.json"

    def shell_line(self) -> str:
        """Return the commands as one line for a shell."""
        return " && ".join(shlex.join(command) for command in self.commands)


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Args:
        pretraining: Trainings whose weights the runs start from; before all others.
        runs: Independent of each other.
        skipped: Runs that cannot be made here, with the reason.
    """

    pretraining: list[Run]
    runs: list[Run]
    skipped: list[Result]


def make_plan(
    weights: Sequence[Weights],
    protocols: Sequence[Protocol],
    *,
    profile: Profile,
    data: Path,
    work_dir: Path,
    num_seeds: int,
    num_gpus: int = 1,
) -> Plan:
    """Check everything that can be known beforehand, and write the configs.

    Args:
        weights: Rows of the table.
        protocols: Columns of the table.
        profile: Size of the data.
        data: Folder that replaces the prefix of the configs' ``data_root``.
        work_dir: Configs go to ``configs/`` in it, runs to ``runs/``.
        num_seeds: Trainings of each pair, with seeds 0, 1, ...
        num_gpus: Processes that detection and segmentation share their images among.

    Raises:
        FileNotFoundError: Data that are not there, all of them, with what makes them.
        ValueError: Weights that do not fit, or images that cannot be shared among the GPUs.
    """
    plan = Plan([], [], [])
    missing: dict[str, str] = {}
    trains_supervised = profile != "paper" and any(w.start == SUPERVISED for w in weights)
    if trains_supervised:
        row = next(w for w in weights if w.start == SUPERVISED)
        protocol = next(p for p in PROTOCOLS[profile] if p.name == _PRETRAINING)
        cfg = _make_config(protocol, row, "random", profile, data, num_gpus)
        _find_missing(cfg, profile, data, missing)
        name = "supervised_pretraining"
        run = _write_run(cfg, protocol, row.name, 0, work_dir, name, num_gpus)
        plan.pretraining.append(replace(run, commands=run.commands[:1]))
        last = run.folder / f"epoch_{cfg.train_cfg.max_epochs}.pth"
        weights = [replace(w, start=str(last)) if w is row else w for w in weights]
    for seed in range(num_seeds):
        for protocol in protocols:
            for row in weights:
                reason = _why_not(protocol, row)
                if reason:
                    plan.skipped.append(
                        Result(protocol.name, row.name, seed, {}, 0.0, "skipped", reason)
                    )
                    continue
                cfg = _make_config(protocol, row, row.start, profile, data, num_gpus)
                cfg.randomness.seed = seed
                if seed == 0:
                    _find_missing(cfg, profile, data, missing)
                    if not (trains_supervised and row.name == SUPERVISED):
                        apply_weights(cfg.copy(), None, adapt=False)
                name = f"{row.name}/{protocol.name}/seed{seed}"
                run = _write_run(cfg, protocol, row.name, seed, work_dir, name, num_gpus)
                plan.runs.append(run)
    if missing:
        lines = "\n".join(f"  {problem}\n    {remedy}" for problem, remedy in missing.items())
        raise UserFileNotFoundError(
            f"the data of all protocols must be there, but some are not:\n{lines}\n"
            "give their folder by --data, or choose other --protocols."
        )
    return plan


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


def _make_config(
    protocol: Protocol, row: Weights, start: str, profile: Profile, data: Path, num_gpus: int
) -> Config:
    cfg = Config.fromfile(shipped(protocol.config))
    cfg.weights = start
    if row.backbone is not None:
        adapt_backbone(cfg, row.backbone)
    _relocate(cfg, DATA[profile].prefix, str(data.resolve()))
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


def _find_missing(cfg: Config, profile: Profile, data: Path, missing: dict[str, str]) -> None:
    try:
        check_config(cfg, ("train", "test"))
    except FileNotFoundError as error:
        for part, remedy in DATA[profile].remedies.items():
            if str(data.resolve() / part) in str(error):
                missing[str(error)] = remedy.format(data)
                return
        missing[str(error)] = "see docs/data.md"


def _write_run(
    cfg: Config,
    protocol: Protocol,
    weights: str,
    seed: int,
    work_dir: Path,
    name: str,
    num_gpus: int,
) -> Run:
    config = work_dir / "configs" / f"{name.replace('/', '_')}.py"
    folder = work_dir / "runs" / name
    config.parent.mkdir(parents=True, exist_ok=True)
    # Config.dump formats by yapf, which takes a minute for a hundred runs.
    items = cfg.to_dict().items()
    config.write_text(
        "".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items)
    )
    processes = num_gpus if protocol.images_per_step else 1
    python = [sys.executable]
    launcher: list[str] = []
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        launcher = ["--launcher", "pytorch"]
    where = ["--work-dir", str(folder), *launcher]
    train = [*python, str(shipped("tools/train.py")), str(config), *where, "--resume"]
    out = ["--out", str(folder / "metrics.json"), "--force"]
    test = [*python, str(shipped("tools/test.py")), str(config), str(folder), *where, *out]
    return Run(protocol, weights, seed, config, folder, (tuple(train), tuple(test)))
