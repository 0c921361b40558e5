"""Lets ``mmcv._ext``, mmcv's compiled operators, be torchvision's where mmcv has none.

``import mmssprl`` puts a finder behind all others: a compiled mmcv is found before it, and nothing
is imported until mmcv asks for its operators.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_NAME = "mmcv._ext"
_FILE = str(Path(__file__).with_name("_mmcv_ext.py"))


class _OperatorsFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_file_location(_NAME, _FILE) if fullname == _NAME else None


def provide_operators() -> None:
    """Answer for ``mmcv._ext`` in this process from now on, unless mmcv is compiled."""
    if not any(isinstance(finder, _OperatorsFinder) for finder in sys.meta_path):
        sys.meta_path.append(_OperatorsFinder())
