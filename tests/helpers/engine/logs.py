"""Logs of scalars as a run writes them."""

import json
from pathlib import Path


def write_log(work_dir, records, stamp="20260101_000000"):
    path = work_dir / stamp / "vis_data" / "scalars.json"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read_log(work_dir):
    """Return the lines of a run that was started once."""
    (path,) = Path(work_dir).glob("*/vis_data/scalars.json")
    return [json.loads(line) for line in path.read_text().splitlines()]
