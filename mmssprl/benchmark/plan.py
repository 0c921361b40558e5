"""From the arguments of the benchmark to runs: one config and its commands each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmengine.config import Config

from ..engine.adapted_backbone import adapt_backbone
from ..engine.checks import missing_package
from ..engine.initial_weights import apply_weights
from ..runs import CommandRun, with_needs
from ..shipped import shipped
from ..weights import RANDOM
from .protocols import PROTOCOLS, Protocol
from .results import Result, Size
from .rows import SUPERVISED, Weights
from .run import TransferRun
from .run_config import check_data, make_commands, make_config, refuse_missing, write_config

_PRETRAINING = "semisup-100"
"""The protocol that trains on all labels: from random weights it is supervised pre-training."""


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Args:
        runs: In their order; those that start from weights trained here need that training.
        skipped: Runs that cannot be made here, with the reason.
    """

    runs: tuple[TransferRun, ...]
    skipped: tuple[Result, ...]

    def shell_lines(self) -> list[str]:
        """Return a line for a shell for each run, after those of the runs that it needs."""
        runs = with_needs(self.runs)
        return [run.shell_line() for run in runs if isinstance(run, CommandRun)]


def make_plan(
    weights: Sequence[Weights],
    protocols: Sequence[Protocol],
    *,
    size: Size,
    data: Path,
    work_dir: Path,
    num_seeds: int,
    num_gpus: int = 1,
) -> Plan:
    """Check everything that can be known beforehand, and write the configs.

    Args:
        weights: Rows of the table.
        protocols: Columns of the table.
        size: Of the data.
        data: Folder that replaces the prefix of the configs' ``data_root``.
        work_dir: Configs go to ``configs/`` in it, runs to ``runs/``.
        num_seeds: Trainings of each pair, with seeds 0, 1, ...
        num_gpus: Processes that detection and segmentation share their images among.

    Raises:
        FileNotFoundError: Data that are not there, all of them, with what makes them.
        ValueError: Weights that do not fit, or images that cannot be shared among the GPUs.
    """
    runs: list[TransferRun] = []
    skipped: list[Result] = []
    missing: dict[str, str] = {}
    needs: dict[str, CommandRun] = {}
    rows = list(weights)
    for index, row in enumerate(rows):
        if row.start == SUPERVISED and size != "paper":  # at full size there are torchvision's
            protocol = next(p for p in PROTOCOLS[size] if p.name == _PRETRAINING)
            start = replace(row, start=RANDOM)
            cfg = make_config(protocol, start, size=size, data=data, num_gpus=num_gpus)
            missing |= check_data(cfg, size, data)
            needs[row.name] = training = _write_training(cfg, work_dir)
            last = training.folder / f"epoch_{cfg.train_cfg.max_epochs}.pth"
            rows[index] = replace(row, start=str(last))
    for seed in range(num_seeds):
        for protocol in protocols:
            for row in rows:
                reason = _why_not(protocol, row)
                if reason:
                    result = Result(protocol.name, row.name, seed, {}, 0.0, "skipped", reason)
                    skipped.append(result)
                    continue
                cfg = make_config(protocol, row, size=size, data=data, num_gpus=num_gpus)
                cfg.randomness.seed = seed
                if seed == 0:
                    missing |= check_data(cfg, size, data)
                    if row.name not in needs:
                        apply_weights(cfg.copy(), None, adapt=False)
                run = _write_run(cfg, protocol, row.name, seed, work_dir, num_gpus)
                if row.name in needs:
                    run = replace(run, needs=(needs[row.name],))
                runs.append(run)
    refuse_missing(missing)
    return Plan(tuple(runs), tuple(skipped))


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


def _write_training(cfg: Config, work_dir: Path) -> CommandRun:
    """Write the config of the supervised pre-training, whose test is not asked for."""
    folder = work_dir / "runs" / "supervised_pretraining"
    config = work_dir / "configs" / "supervised_pretraining.py"
    write_config(cfg, config)
    train, _ = make_commands(config, folder, num_processes=1)
    name = "supervised pre-training"
    return CommandRun(name=name, kind=_PRETRAINING, folder=folder, commands=(train,))


def _write_run(
    cfg: Config, protocol: Protocol, weights: str, seed: int, work_dir: Path, num_gpus: int
) -> TransferRun:
    folder = work_dir / "runs" / weights / protocol.name / f"seed{seed}"
    config = work_dir / "configs" / f"{weights}_{protocol.name}_seed{seed}.py"
    write_config(cfg, config)
    return TransferRun(
        name=f"{protocol.name}, {weights}, seed {seed}",
        kind=protocol.name,
        folder=folder,
        commands=make_commands(config, folder, num_gpus if protocol.images_per_step else 1),
        protocol=protocol,
        weights=weights,
        seed=seed,
        config=config,
    )
