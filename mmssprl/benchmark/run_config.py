"""The config of one run of the benchmark, and the commands that train and test by it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from ..engine.adapted_backbone import adapt_backbone
from ..engine.checks import check_config
from ..errors import UserFileNotFoundError, UserValueError
from ..shipped import shipped
from .protocols import DATA, Protocol
from .results import Size
from .rows import Weights


def make_config(
    protocol: Protocol, row: Weights, *, size: Size, data: Path, num_gpus: int
) -> Config:
    """Return the protocol's config for a row: its backbone, its weights, and the user's data.

    Args:
        protocol: Of ``size``.
        row: Whose ``start`` the training begins with.
        size: Of the data.
        data: Folder that replaces the prefix of the config's ``data_root``.
        num_gpus: Processes that share the images of a step, where the protocol allows it.

    Raises:
        ValueError: A backbone that does not fit, or images that cannot be shared.
    """
    cfg = Config.fromfile(shipped(protocol.config))
    cfg.weights = row.start
    if row.backbone is not None:
        adapt_backbone(cfg, row.backbone)
    _relocate(cfg, DATA[size].prefix, str(data.resolve()))
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


def check_data(cfg: Config, size: Size, data: Path) -> dict[str, str]:
    """Return what a config needs and does not find, with what makes it; nothing if all is there."""
    try:
        check_config(cfg, ("train", "test"))
    except FileNotFoundError as error:
        problem = str(error)
        for part, remedy in DATA[size].remedies.items():
            if str(data.resolve() / part) in problem:
                return {problem: remedy.format(data)}
        return {problem: "see docs/data.md"}
    return {}


def refuse_missing(missing: Mapping[str, str]) -> None:
    """Tell all data that ``check_data`` has missed at once.

    Raises:
        FileNotFoundError: There are such.
    """
    if missing:
        lines = "\n".join(f"  {problem}\n    {remedy}" for problem, remedy in missing.items())
        raise UserFileNotFoundError(
            f"the data of all protocols must be there, but some are not:\n{lines}\n"
            "give their folder by --data, or choose other --protocols."
        )


def write_config(cfg: Config, path: Path) -> None:
    """Write a config that needs no other file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Config.dump formats by yapf, which takes a minute for a hundred runs.
    items = cfg.to_dict().items()
    path.write_text("".join(f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in items))


def make_commands(
    config: Path, folder: Path, num_processes: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that train and test, each of which goes on where it was stopped."""
    python, launcher = [sys.executable], []
    if num_processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone"]
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
