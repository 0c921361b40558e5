"""The config that a run has written into its work dir."""

from pathlib import Path
from textwrap import shorten
from typing import Any

from mmengine.config import Config

from ..errors import UserFileNotFoundError, UserValueError
from .reading import read_config_file, refuse


def run_config(work_dir: str | Path) -> Config:
    """Read the config of a run."""
    paths = sorted(Path(work_dir).glob("*.py"))
    if len(paths) != 1:
        error = UserValueError if paths else UserFileNotFoundError
        raise error(
            f"the folder of a run must hold exactly one config, but {work_dir} holds "
            f"{[path.name for path in paths] or 'none'}; keep only the config of its training."
        )
    return read_config_file(paths[0].absolute())


def require(cfg: Config, **kinds: type | tuple[type, ...]) -> None:
    """Raise ValueError if a config does not have values of these types, by dotted key."""
    for key, kind in kinds.items():
        node: Any = cfg
        for part in key.split("."):
            node = node.get(part) if isinstance(node, Config | dict) else None
        if not isinstance(node, kind):
            name = (kind if isinstance(kind, type) else kind[0]).__name__
            got = "the file sets none" if node is None else f"got {shorten(repr(node), 80)}"
            refuse(cfg, key, f"it must be a {name}, but {got}; keep the config of the run here.")
