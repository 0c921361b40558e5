"""Puts tools, configs and model-index.yml where MIM looks for them: ``mmssprl/.mim``.

A wheel gets copies, an editable install links. An sdist holds the originals; the wheel built from
it gets its copies like any other. Everything else about the package is in pyproject.toml.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
MIM_ENTRIES = ("tools", "configs", "model-index.yml")


class BuildWithMim(build_py):
    """build_py, followed by filling ``mmssprl/.mim``."""

    def run(self) -> None:
        """Build the package, then copy or link what MIM needs."""
        super().run()
        place = link if self.editable_mode else copy
        package = ROOT if self.editable_mode else Path(self.build_lib)
        mim = package / "mmssprl" / ".mim"
        mim.mkdir(parents=True, exist_ok=True)
        for entry in MIM_ENTRIES:
            remove(mim / entry)
            place(ROOT / entry, mim / entry)


def remove(path: Path) -> None:
    """Delete what an earlier build left, following no link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link(source: Path, target: Path) -> None:
    """Link relatively, so that a moved checkout stays whole."""
    target.symlink_to(os.path.relpath(source, target.parent))


def copy(source: Path, target: Path) -> None:
    """Copy a file, or a folder without Python's caches."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithMim})
