"""Provides ``mmcv._ext``, mmcv's compiled operators, by torchvision if mmcv has none.

``import mmssprl`` appends an import finder: a compiled mmcv is found first, and nothing is imported
until mmcv needs its operators.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

_NAME = "mmcv._ext"
_FILE = str(Path(__file__).with_name("_mmcv_ext.py"))


class _OperatorsFinder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_file_location(_NAME, _FILE) if fullname == _NAME else None


def provide_operators() -> None:
    """Install the finder for ``mmcv._ext`` in this process."""
    if not any(isinstance(finder, _OperatorsFinder) for finder in sys.meta_path):
        sys.meta_path.append(_OperatorsFinder())
