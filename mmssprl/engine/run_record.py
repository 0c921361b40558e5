"""What a pre-training was, with what it ran, and on which images: ``run.json``, ``recipe.json``."""

import json
import logging
import shlex
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import get_world_size
from mmengine.logging import print_log

from ..environment import describe_environment, source_commit
from ..outputs import write_whole

FILE = "run.json"
RECIPE_FILE = "recipe.json"
"""What `pretrain` has told of its recipe and forecast, with the reasons."""
REPORT_FILE = "report.html"
"""The page about the run, see ``report``."""


def record_run(cfg: Config, dataset: Any, resumed_from: str | None) -> None:
    """Write ``run.json`` into the work dir, or go on with it where a run is resumed.

    It holds the resolved config and, for each start of the run: the time, the command, the
    checkpoint that it goes on from, the environment, the commit of this package, the fingerprint
    of the images, and the config where it is another than at first.

    Args:
        cfg: Of the run, after the command line was applied.
        dataset: To train on; its fingerprint is kept if it has one.
        resumed_from: The checkpoint; None for a new run.
    """
    path = Path(cfg.work_dir) / FILE
    config = json.loads(json.dumps(cfg.to_dict(), default=str))
    start = {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "resumed_from": resumed_from,
        "processes": get_world_size(),
        "environment": describe_environment(get_device()),
        "commit": source_commit(),
        "images": dataset.fingerprint() if hasattr(dataset, "fingerprint") else None,
    }
    record = _read(path) if cfg.get("resume") else None
    if record is None:
        record = {"config": config, "starts": []}
    elif config != record["config"]:
        start["config"] = config
    if record["starts"]:
        _tell_changes(record["starts"][0]["images"], start["images"])
    record["starts"].append(start)
    write_whole(path, json.dumps(record, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any] | None:
    """Return a record, None if there is none that can be gone on with."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.keys() >= {"config", "starts"} else None


def _tell_changes(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> None:
    if before is None or now is None or before == now:
        return
    what = "some files have another name or size"
    if before["num_images"] != now["num_images"]:
        what = f"there were {before['num_images']:,}, and now there are {now['num_images']:,}"
    print_log(
        f"the images are not those that this run began with: {what}.",
        logger="current",
        level=logging.WARNING,
    )
