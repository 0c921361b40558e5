"""What a training was, with what it ran, and on which images: ``run.json``, ``recipe.json``."""

import json
import logging
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import get_world_size
from mmengine.logging import print_log

from ..system.environment import describe_environment, source_commit
from ..system.outputs import write_whole

FILE = "run.json"
RECIPE_FILE = "recipe.json"
"""The recipe and forecast that `pretrain` printed, with reasons."""
REPORT_FILE = "report.html"
"""The page about the run, see ``report``."""
SCORES = ("scores.csv", "scores.json", "predictions.png")
"""What a finished fine-tuning leaves in its work dir."""


def record_run(cfg: Config, dataset: Any) -> None:
    """Write ``run.json`` into the work dir, or keep it up where a run is resumed.

    It holds the resolved config and, for each start of the run: the time, the command, the
    checkpoint that it resumes from, the environment, the commit of this package, the fingerprint
    of the images, and the config where it is another than at first. A warning tells other images.
    """
    resumed_from = cfg.get("load_from") if cfg.get("resume") else None
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
    now = start["images"]
    before = record["starts"][0]["images"] if record["starts"] else now
    if before != now and None not in (before, now):
        text = (
            f"the images are not those that this run began with: {before['num_images']:,} then, "
            f"{now['num_images']:,} now, some of other names or sizes."
        )
        print_log(text, logger="current", level=logging.WARNING)
    record["starts"].append(start)
    write_whole(path, json.dumps(record, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any] | None:
    """Return a record, None if there is none that can be kept up."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.keys() >= {"config", "starts"} else None
