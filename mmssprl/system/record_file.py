"""Read ``run.json``, the record of a run's starts; imports no torch."""

import json
from pathlib import Path
from typing import Any

RECORD_FILE = "run.json"
ENDED = "ended"
"""Key of a start in ``run.json``: whether it ended, with the last validation and the export."""


def read_record(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is none."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def has_ended(work_dir: str | Path, *, unknown: bool) -> bool:
    """Whether the last start has trained to its end; ``unknown`` if the record does not say it.

    Records of 0.3.0 and older do not.
    """
    starts = read_record(Path(work_dir) / RECORD_FILE).get("starts") or [{}]
    return bool(starts[-1].get(ENDED, unknown))
