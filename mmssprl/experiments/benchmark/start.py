"""Take a work dir for a benchmark, find its rows, get the data there, and plan the runs."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ...config.shipped import shipped
from ...datasets.scenes.generate import generate_sample
from ...errors import UserValueError
from ...weights import RANDOM, SUPERVISED, find_config, weights_file
from ...weights.description import find_description
from ..execute import Log
from ..work_dir import claim
from .plan import BenchmarkPlan, make_plan
from .protocols import DATA_PREFIX, Size, Weights, choose_protocols

WORDS = (RANDOM, SUPERVISED)
"""Stand for weights without a file."""


def find_weights(values: Sequence[str]) -> list[Weights]:
    """Name each file or word, and find the backbone that belongs to it.

    A file has the name of its row; of equal names, or one of ``WORDS``, its folder is told, too.
    """
    files = {value: weights_file(value).resolve() for value in values if value not in WORDS}
    backbones = {value: _backbone(path) for value, path in files.items()}
    of_words = next(iter(backbones.values()), None)
    several = any(backbone != of_words for backbone in backbones.values())
    if several and len(files) < len(values):
        raise UserValueError(
            f"'{RANDOM}' and '{SUPERVISED}' need one backbone for all files, but the files have "
            "several; benchmark each backbone in a --work-dir of its own."
        )
    taken = [*WORDS, *(path.stem for path in files.values())]
    rows = []
    for value in values:
        if value in WORDS:
            rows.append(Weights(value, value, of_words))
            continue
        path = files[value]
        name = path.stem if taken.count(path.stem) == 1 else f"{path.parent.name}_{path.stem}"
        rows.append(Weights(name, str(path), backbones[value]))
    names = [row.name for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserValueError(
            f"weights must differ in the names of file or folder, but {twice} is there twice; "
            "rename one."
        )
    return rows


def _backbone(path: Path) -> dict[str, Any] | None:
    """Return None for a file alone, such as torchvision's: it is of the protocols' backbone."""
    if find_description(path):
        return find_config(str(path), None).model.backbone.to_dict()
    return None


def plan_in_work_dir(
    work_dir: Path,
    rows: Sequence[Weights],
    *,
    size: Size,
    protocol_names: Sequence[str] | None,
    data: str | None,
    num_seeds: int,
    num_gpus: int,
    dry_run: bool,
    log: Log,
    data_may_lack: bool = False,
) -> BenchmarkPlan:
    """Take a work dir, get the data there, plan the runs and write their configs.

    The arguments are the options of the command; ``log`` receives lines about what is planned. A
    dry run is told without the data that are missing, if they ``data_may_lack``.
    """
    protocols = choose_protocols(size, protocol_names)
    # None for scenes that are generated into the work dir.
    found = None if size == "scenes" and not data else Path(data or "data")
    settings = {
        "size": size,
        "data": str(found.resolve()) if found else None,
        "weights": {row.name: _identity(row) for row in rows},
        "configs": {
            p.name: digest(Config.fromfile(shipped(p.config)).to_dict()) for p in protocols
        },
    }
    if not dry_run:
        claim(work_dir, "benchmark.json", "a benchmark", settings)
    scenes = work_dir / "scenes"
    folder = found or (scenes if dry_run else generate_sample(work_dir))
    plan = make_plan(
        rows,
        protocols,
        size=size,
        data=folder,
        work_dir=work_dir,
        num_seeds=num_seeds,
        num_gpus=num_gpus,
        writes=not dry_run,
        data_follow=dry_run and (found is None or data_may_lack),
    )
    moved = "" if str(folder) == DATA_PREFIX[size] else f" (in place of {DATA_PREFIX[size]})"
    log(f"data: {folder}{moved}")
    for training in plan.waiting:
        log(f"before some of the runs: {training.name}, in {training.folder}")
    return plan


def _identity(row: Weights) -> str:
    """Digest what a row begins with: a config, or backbone and content of a file, or the word."""
    if row.pretrained_by:
        return digest(row.pretrained_by.to_dict())
    return digest([row.backbone, row.start * (row.start in WORDS)], row.start)


def digest(content: Any, file: str = "") -> str:
    """Return the SHA-256 of what JSON makes of ``content``, and of a file if there is one."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    if Path(file).is_file():
        found.update(Path(file).read_bytes())
    return found.hexdigest()
