"""The folder of a comparison: taken once, gone on with by the same command."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..work_dir import check_same, read_marker, write_marker

MARKER = "compare.json"
_OF_PACES = ("data", "batch_size")
"""Settings that a measured pace depends on, beside the config that it names."""


def claim(work_dir: Path, settings: Mapping[str, Any], *, writes: bool = True) -> None:
    """Take an unused folder, or go on in one of the same settings.

    One in which nothing has been trained yet takes other settings: a first call that was refused
    must not stand in the way of the one that corrects it.

    Args:
        work_dir: What belongs to it is kept in its ``compare.json``.
        settings: What must not change between calls, as JSON holds it.
        writes: If not, it is only told what does not fit.

    Raises:
        FileExistsError: The folder holds something else; nothing in it is touched.
        ValueError: It was begun with other settings, or its ``compare.json`` is damaged.
    """
    before = read_marker(work_dir, MARKER, "a comparison")
    if before is not None:
        if before.pop("tuning_epochs", None):  # of former versions
            before["tune"] = True
        if any(work_dir.glob("runs/*")) or any(work_dir.glob("tuning/*")):
            check_same(work_dir, before, settings)
        elif writes and any(before.get(key) != settings.get(key) for key in _OF_PACES):
            shutil.rmtree(work_dir / "paces", ignore_errors=True)
    if writes:
        write_marker(work_dir, MARKER, settings)
