"""Which mmcv is installed, what it can do, and one like it without its compiled module."""

import importlib.util
import os
from pathlib import Path

import mmcv

import mmssprl

FALLBACK = Path(mmssprl.__file__).with_name("_mmcv_ext.py")
SPEC = importlib.util.find_spec("mmcv._ext")
IS_COMPILED = SPEC.origin != str(FALLBACK)


def without_operators(folder: Path) -> dict[str, str]:
    """Link mmcv without its compiled module; return an environment that finds it first."""
    package = folder / "mmcv"
    package.mkdir()
    for path in Path(mmcv.__file__).parent.iterdir():
        if not path.name.startswith(("_ext", "__pycache__")):
            (package / path.name).symlink_to(path)
    paths = [str(folder), str(FALLBACK.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
