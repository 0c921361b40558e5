"""``run.json``: the config, environment, and images of a run; names of other files next to it."""

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
from ..system.record_file import ENDED, RECORD_FILE, read_record

RECIPE_FILE = "recipe.json"
"""The recipe and forecast that `pretrain` printed, with reasons."""
REPORT_FILE = "report.html"
"""The page that ``report`` writes."""
SCORES = ("scores.csv", "scores.json", "predictions.png")
"""Written by a finished fine-tuning."""


def record_run(cfg: Config, dataset: Any, log: str | None = None) -> None:
    """Write ``run.json`` into the work dir, or add this start to it if the run is resumed.

    Each start has the config if it changed, and the folder of its ``log``. Changed images are a
    warning.
    """
    path = Path(cfg.work_dir) / RECORD_FILE
    config = json.loads(json.dumps(cfg.to_dict(), default=str))
    images = dataset.fingerprint() if hasattr(dataset, "fingerprint") else None
    start = {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "log": log,
        "resumed_from": cfg.get("load_from") if cfg.get("resume") else None,
        "processes": get_world_size(),
        "environment": describe_environment(get_device()),
        "commit": source_commit(),
        "images": images,
        ENDED: False,
    }

    record = read_record(path) if cfg.get("resume") else {}
    if not record.keys() >= {"config", "starts"}:
        record = {"config": config, "starts": []}
    elif config != record["config"]:
        start["config"] = config
    if record["starts"]:
        _warn_of_changes(record["starts"][0]["images"], images)
    record["starts"].append(start)
    write_whole(path, json.dumps(record, indent=2) + "\n")


def record_end(work_dir: str | Path) -> None:
    """Note in ``run.json`` that the last start has trained to its end."""
    path = Path(work_dir) / RECORD_FILE
    record = read_record(path)
    if record.get("starts"):
        record["starts"][-1][ENDED] = True
        write_whole(path, json.dumps(record, indent=2) + "\n")


def _warn_of_changes(before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
    """Warn if the fingerprints of the images differ; None says nothing of them."""
    if before is None or now is None or before == now:
        return
    text = (
        f"the images have changed since this run started: {before['num_images']:,} then, "
        f"{now['num_images']:,} now, some with other names or sizes."
    )
    print_log(text, logger="current", level=logging.WARNING)
