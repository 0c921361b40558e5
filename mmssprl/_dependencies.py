"""Check the installed OpenMMLab packages, and print the command that repairs them.

Two families of distributions provide the same modules: the official one and OneDL's. Either works,
both together do not, and the metadata of mmssprl cannot express this. It reads metadata only.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable

from .errors import UserRuntimeError

TORCH = {"torch": "torch>=2.10", "torchvision": "torchvision>=0.25"}

# mmcv < 2.4: OneDL's mmpretrain, mmdet and mmseg assert it.
ONEDL = {
    "mmengine": "onedl-mmengine>=0.10.10,<0.11",
    "mmcv": "onedl-mmcv>=2.3,<2.4",
    "mmpretrain": "onedl-mmpretrain>=1.3,<2",
    "mmdet": "onedl-mmdetection>=3.4,<4",
    "mmseg": "onedl-mmsegmentation>=1.3,<2",
}
OFFICIAL = {
    "mmengine": "mmengine>=0.11.0rc3,<0.12",  # 0.10 cannot resume its own checkpoints
    "mmcv": "mmcv>=2.1,<2.2",  # mmdet and mmseg assert it
    "mmpretrain": "mmpretrain>=1.2,<2",
    "mmdet": "mmdet>=3.3,<4",
    "mmseg": "mmsegmentation>=1.2,<2",
}
# mmcv without compiled operators; _mmcv_operators.py replaces the needed ones.
OFFICIAL_MMCV_LITE = "mmcv-lite>=2.1,<2.2"

FAMILIES = {"onedl": ONEDL, "openmmlab": OFFICIAL}
REQUIRED = ("mmengine", "mmcv", "mmpretrain")
OPTIONAL = ("mmdet", "mmseg")
_IF_THERE = {"transformers": "transformers<5"}  # mmpretrain imports names that 5 removed


def check_dependencies() -> None:
    """Raise RuntimeError with the repair command if a package is missing or has a wrong version.

    Not ImportError, which mmengine's registries swallow when they look for ``mmssprl.registry``.
    """
    onedl = _installed(ONEDL.values())
    official = _installed([*OFFICIAL.values(), OFFICIAL_MMCV_LITE])

    wanted = dict(OFFICIAL if official and not onedl else ONEDL)
    clash = onedl + official if onedl and official else []
    if {"mmcv", "mmcv-lite"} <= {*official}:
        clash = clash or ["mmcv", "mmcv-lite"]
    if clash:
        problem = f"{', '.join(clash)} are all installed and overwrite each other's files."
        command = f"pip uninstall -y {' '.join(clash)} && pip install"
        _fail([problem], command, [wanted[module] for module in REQUIRED])

    if "mmcv-lite" in official:
        wanted["mmcv"] = OFFICIAL_MMCV_LITE
    wanted |= _IF_THERE
    optional = [module for module in (*OPTIONAL, *_IF_THERE) if _installed([wanted[module]])]
    wanted = TORCH | {module: wanted[module] for module in (*REQUIRED, *optional)}
    problems = {req: text for module, req in wanted.items() if (text := _problem(module, req))}
    if problems:
        is_broken = any(" is broken: " in text for text in problems.values())
        command = "pip install --force-reinstall" if is_broken else "pip install"
        _fail(problems.values(), command, problems)


def installed_version(name: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_importable(module: str) -> bool:
    """Whether Python finds a top-level module, without importing it."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # None: a folder that pip left behind


def distribution(requirement: str) -> str:
    """Return the distribution name of a requirement."""
    return re.split("[<>]", requirement)[0]


def fits(version: str, requirement: str) -> bool:
    """Whether a version satisfies a requirement; a pre-release counts as its release."""
    # Not at the top: if packaging is missing, the message must name the other packages too.
    from packaging.requirements import Requirement
    from packaging.version import Version

    return Requirement(requirement).specifier.contains(Version(version).base_version)


def _installed(requirements: Iterable[str]) -> list[str]:
    """Return the distributions that are installed."""
    return [name for name in map(distribution, requirements) if installed_version(name)]


def _problem(module: str, requirement: str) -> str | None:
    """Return what is wrong with a module, None if nothing."""
    name = distribution(requirement)
    version = installed_version(name)
    if not is_importable(module):
        if version is None:
            return f"{module} is missing."
        # Uninstalling one family deletes files of the other.
        return f"{module} is broken: {name} {version} is installed, but nothing to import."
    if version is None or fits(version, requirement):  # None: a source tree on PYTHONPATH
        return None
    return f"{module} must be {requirement}, but {version} is installed."


def _fail(problems: Iterable[str], command: str, needed: Iterable[str]) -> None:
    specs = " ".join(f'"{spec}"' for spec in needed)
    raise UserRuntimeError(
        f"mmssprl cannot run in this environment: {' '.join(problems)} To repair: {command} {specs}"
    )
