"""The folder of a comparison: taken once, gone on with by the same command."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import UserFileExistsError, UserValueError
from ...system.one_run import is_unused
from ...system.outputs import write_whole

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
    marker = work_dir / MARKER
    if not is_unused(work_dir):
        if not marker.exists():
            raise UserFileExistsError(
                f"a comparison needs a folder of its own, but {work_dir} holds other files; give "
                "another --work-dir."
            )
        try:
            before = json.loads(marker.read_text())
        except ValueError as error:
            raise UserValueError(
                f"{marker} must be JSON, but is damaged ({error}); write it as in another work dir "
                "of the same settings, or give another --work-dir."
            ) from None
        if before.pop("tuning_epochs", None):  # of former versions
            before["tune"] = True
        has_runs = any(work_dir.glob("runs/*")) or any(work_dir.glob("tuning/*"))
        if not has_runs:
            if writes and any(before.get(key) != settings.get(key) for key in _OF_PACES):
                shutil.rmtree(work_dir / "paces", ignore_errors=True)
            before = settings
        for key in {**before, **settings}:
            if before.get(key) != settings.get(key):
                raise UserValueError(
                    f"all runs of a work dir must have the same {key}, but {work_dir} was begun "
                    f"with {before.get(key)} and got {settings.get(key)}; give the former, or "
                    "another --work-dir."
                )
    if writes:
        work_dir.mkdir(parents=True, exist_ok=True)
        write_whole(marker, json.dumps(settings, indent=2) + "\n")
