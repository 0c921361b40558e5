"""Puts tools, configs and model-index.yml where the two MIMs look for them.

A wheel gets copies, an editable install links. An sdist holds the originals; the wheel built from
it gets its copies like any other. Everything else about the package is in pyproject.toml; what
each MIM does with it is told in docs/mim.md.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
METAFILES = ("configs/ssprl/metafile.yml", "configs/baselines/metafile.yml")
COPIED = ("tools", "configs", "model-index.yml")
# In an editable install onedl-mim searches the whole checkout for the name of a config, through
# links, and gives up if it finds two: only the metafiles that model-index.yml imports are linked.
LINKED = ("tools", "model-index.yml", *METAFILES)
# openmim looks below the package. onedl-mim looks below the first folder of the sorted RECORD,
# where the console script, `../../../bin/mmssprl`, comes before `mmssprl/`;
# a plus comes before dots.
WHEEL_FOLDERS = ("mmssprl/.mim", "+mmssprl_mim")
EDITABLE_FOLDERS = ("mmssprl/.mim",)


class BuildWithMim(build_py):
    """build_py, followed by filling the folders for MIM."""

    def run(self) -> None:
        """Build the package, then copy or link what MIM needs."""
        super().run()
        if self.editable_mode:
            fill(ROOT, EDITABLE_FOLDERS, LINKED, link)
        else:
            fill(Path(self.build_lib), WHEEL_FOLDERS, COPIED, copy)


class EditableByPath(editable_wheel):
    """editable_wheel that is one line in a .pth file; editors and type checkers can follow it."""

    def finalize_options(self) -> None:
        """Name the folder of the packages: setuptools installs by a path only if it is named."""
        self.distribution.package_dir = {"": "."}
        super().finalize_options()


def fill(root: Path, folders: tuple[str, ...], entries: tuple[str, ...], place) -> None:
    """Make each folder below ``root`` anew, with every entry placed in it."""
    for folder in folders:
        shutil.rmtree(root / folder, ignore_errors=True)
        for entry in entries:
            target = root / folder / entry
            target.parent.mkdir(parents=True, exist_ok=True)
            place(ROOT / entry, target)


def link(source: Path, target: Path) -> None:
    """Link relatively, so that a moved checkout stays whole."""
    target.symlink_to(os.path.relpath(source, target.parent))


def copy(source: Path, target: Path) -> None:
    """Copy a file, or a folder without Python's caches."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithMim, "editable_wheel": EditableByPath})
