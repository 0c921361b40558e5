"""The folder of a run: which one it is by default, and whose run a folder holds."""

import glob
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..config.found_config import read_found, require
from ..console.options import given_options
from ..errors import UserError, UserFileExistsError, UserFileNotFoundError, UserValueError
from ..system.one_run import is_unused
from ..system.outputs import check_folder
from .methods import PRETRAINED

PARENT = Path("work_dirs")
"""Where the default work dirs are."""


def default_work_dir(
    prefix: str,
    images: str | Path,
    roots_of: Callable[[Path], list[str]],
    *,
    resume: bool = False,
) -> Path:
    """Return work_dirs/<prefix>_<name of ``images``>, numbered where others have that one.

    The one that holds a run on these images counts, by ``roots_of`` (images of the runs in a work
    dir); else the first that is new or empty, or, with ``resume``, the one without a number.
    """
    root = Path(images).resolve()
    first = PARENT / f"{prefix}_{root.name}"
    numbered = sorted(PARENT.glob(f"{glob.escape(first.name)}-*"))
    for folder in (first, *(path for path in numbered if path.name.rpartition("-")[2].isdigit())):
        if root in map(Path, roots_of(folder)):
            return folder
    if resume:
        return first
    names = (first if n == 1 else first.with_name(f"{first.name}-{n}") for n in count(1))
    return next(filter(is_unused, names))


def refuse_used(work_dir: Path) -> None:
    """Raise FileExistsError if a work dir holds anything or is a file; say whose run it holds."""
    check_folder(work_dir)
    if not is_unused(work_dir):
        roots = pretrained_images(work_dir)
        of = f" of the run on {roots[0]}" if roots else ""
        raise UserFileExistsError(
            f"work_dir must be new or empty, but {work_dir} holds files{of}; go on with its run by "
            "resume, or give another work_dir."
        )


_FLAGS = {"cfg_options": "cfg_options (--set)"}
"""Options that the command line calls otherwise."""


def refuse_given(asked: Any, config: Path) -> None:
    """Raise ValueError if options are given for a run that goes on with the config it has."""
    names = [_FLAGS.get(name, name) for name in given_options(asked)]
    if names:
        raise UserValueError(
            f"resume takes everything from {config}; leave {', '.join(names)} out, or start a new "
            "run."
        )


def config_of_run(work_dir: Path, images: str) -> Config:
    """Read the config of the run on ``images`` that a work dir holds."""
    configs = _configs_of_runs(work_dir)
    if len(configs) != 1:
        raise UserFileNotFoundError(
            f"resume needs the config of one run in {work_dir}, but found {len(configs)}; give the "
            "work_dir of the run, or leave resume out to start one."
        )
    cfg = read_found(configs[0])
    require(cfg, **{"train_dataloader.dataset.data_root": str, "train_cfg.max_epochs": int})
    root = _images_of(cfg)
    if Path(root) != Path(images).resolve():
        raise UserValueError(
            f"resume goes on with the run's own images, {root}, but got {images}; give that "
            "folder, or start a new run with another work_dir."
        )
    return cfg


def pretrained_images(work_dir: Path) -> list[str]:
    """Return the images of the pre-trainings that a work dir holds the configs of."""
    return read_roots(_configs_of_runs(work_dir), _images_of)


def read_roots(configs: list[Path], root_of: Callable[[Config], str]) -> list[str]:
    """Return the images of configs; a file that is no config of a run has none."""
    roots = []
    for config in configs:
        try:
            root = root_of(read_found(config))
        except (UserError, AttributeError, KeyError):
            continue
        if isinstance(root, str):
            roots.append(root)
    return roots


def _configs_of_runs(work_dir: Path) -> list[Path]:
    return [path for key in PRETRAINED for path in sorted(work_dir.glob(f"{key}_*.py"))]


def _images_of(cfg: Config) -> str:
    return cfg.train_dataloader.dataset.data_root
