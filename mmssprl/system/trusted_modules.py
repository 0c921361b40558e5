"""Modules that the user named; files may run the code of no other module."""

import importlib
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from ..console.wording import first_line
from ..errors import UserValueError

named_modules: list[str] = []
"""Python modules that the user has named; only these may be named by files."""


def search_current_folder() -> str:
    """Let imports find modules in the current folder, after all others; return the folder."""
    folder = os.getcwd()
    if folder not in sys.path:  # as `python -m` does, but after installed packages
        sys.path.append(folder)
    return folder


def import_named(module: str) -> Any:
    """Import a module that the user named; search the current folder, too."""
    if re.search(r"[/\\]|\.py$", module):
        folders = re.split(r"[/\\]", module.removesuffix(".py"))
        # Without a drive, and without the dots of relative paths.
        name = ".".join(each for each in folders if each.strip(".") and not each.endswith(":"))
        advice = f"; give {name}, and if needed its folder by PYTHONPATH" if name else ""
        raise UserValueError(
            f"a module is named as in `import`, without / and .py, but got {module}{advice}."
        )
    folder = search_current_folder()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # users' code may raise anything
        raise UserValueError(
            f"{module} must be a module in {folder}, in PYTHONPATH or installed, but importing it "
            f"raises {first_line(error)}; correct the name or PYTHONPATH."
        ) from error
    if module not in named_modules:
        named_modules.append(module)
    return found


def is_named(module: str) -> bool:
    """Whether a module was named by the user, or is the user's own file and not a library's."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    libraries = [sysconfig.get_path(name) or "" for name in ("stdlib", "platlib", "purelib")]
    libraries.append(str(Path(__file__).parents[1]))
    is_own = bool(file) and not any(Path(file).is_relative_to(place) for place in libraries)
    return module in named_modules or is_own
