"""The dependency gate: which OpenMMLab packages are here, do they fit, what command repairs it.

Two families provide the same import names under different distribution names: the official one
(mmengine, mmcv, mmpretrain) and OneDL's (onedl-mmengine, onedl-mmcv, onedl-mmpretrain). Either
will do, never both. The package's metadata can name neither, so this check runs at import. It
reads metadata only: torch is not imported.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Family = Literal["onedl", "openmmlab"]
Version = tuple[int, ...]


@dataclass(frozen=True)
class Requirement:
    """One distribution that can provide a module, and the versions that fit.

    Args:
        distribution: Name pip knows.
        low: First version that fits. A pre-release counts as the release it leads to.
        high: First version that no longer fits; None: no limit is known.
        advice: What pip is told to install where that is narrower than the range.
    """

    distribution: str
    low: Version
    high: Version | None
    advice: str | None = None

    def accepts(self, version: str) -> bool:
        """Whether low <= version < high."""
        number = parse_version(version)
        return number >= self.low and (self.high is None or number < self.high)

    @property
    def range_spec(self) -> str:
        """The distribution with its range, for example ``onedl-mmcv>=2.3,<2.4``."""
        spec = f"{self.distribution}>={_dotted(self.low)}"
        return spec if self.high is None else f"{spec},<{_dotted(self.high)}"

    @property
    def spec(self) -> str:
        """What pip is told to install."""
        return self.advice or self.range_spec


TORCH = {
    "torch": Requirement("torch", (2, 4), None),
    "torchvision": Requirement("torchvision", (0, 19), None),
}

# mmcv < 2.4: OneDL's mmpretrain, mmdet and mmseg assert it.
ONEDL = {
    "mmengine": Requirement("onedl-mmengine", (0, 10, 10), (0, 11)),
    "mmcv": Requirement("onedl-mmcv", (2, 3), (2, 4)),
    "mmpretrain": Requirement("onedl-mmpretrain", (1, 3), (2,)),
    "mmdet": Requirement("onedl-mmdetection", (3, 4), (4,)),
    "mmseg": Requirement("onedl-mmsegmentation", (1, 3), (2,)),
}
# Advice: a mmengine that resumes on every torch, a mmcv that mmdet and mmseg take as well.
OFFICIAL = {
    "mmengine": Requirement("mmengine", (0, 10), (0, 12), "mmengine>=0.11.0rc3,<0.12"),
    "mmcv": Requirement("mmcv", (2, 1), (2, 3), "mmcv>=2.1,<2.2"),
    "mmpretrain": Requirement("mmpretrain", (1, 2), (2,)),
    "mmdet": Requirement("mmdet", (3, 3), (4,)),
    "mmseg": Requirement("mmsegmentation", (1, 2), (2,)),
}
# mmcv without its compiled operators; _mmcv_operators.py replaces those that count.
OFFICIAL_MMCV_LITE = Requirement("mmcv-lite", (2, 1), (2, 3), "mmcv-lite>=2.1,<2.2")

FAMILIES: dict[Family, dict[str, Requirement]] = {"onedl": ONEDL, "openmmlab": OFFICIAL}
REQUIRED = ("mmengine", "mmcv", "mmpretrain")
OPTIONAL = ("mmdet", "mmseg")


@dataclass
class _Report:
    """What is wrong, and what pip has to install for it (in order, without repeats)."""

    problems: list[str] = field(default_factory=list)
    specs: dict[str, None] = field(default_factory=dict)
    reinstall: bool = False

    def add(self, problem: str, spec: str) -> None:
        self.problems.append(problem)
        self.specs[spec] = None


def check_dependencies() -> None:
    """Check everything mmssprl needs, and stop with the command that repairs it.

    Raises:
        RuntimeError: A package is missing, broken or out of range, or both OpenMMLab families are
            installed. Never ImportError: mmengine's registries swallow that one while they look
            for ``mmssprl.registry``, and the user would read "not in the registry" instead.
    """
    onedl, official = (_installed(family) for family in ("onedl", "openmmlab"))
    if onedl and official:
        _fail_mixed(onedl, official)
    family: Family = "openmmlab" if official else "onedl"
    if {"mmcv", "mmcv-lite"} <= official.keys():
        _fail(
            ["mmcv and mmcv-lite are both installed and overwrite each other's files."],
            f"pip uninstall -y mmcv mmcv-lite && pip install {_quote([OFFICIAL['mmcv'].spec])}",
        )

    requirements = dict(FAMILIES[family])
    if "mmcv-lite" in official:
        requirements["mmcv"] = OFFICIAL_MMCV_LITE
    report = _Report()
    for module, requirement in TORCH.items():
        _check(report, module, requirement)
    for module in REQUIRED:
        _check(report, module, requirements[module])
    for module in OPTIONAL:
        if installed_version(requirements[module].distribution) is not None:
            _check(report, module, requirements[module])
    if family == "openmmlab":
        _check_official_pairs(report)
    if report.problems:
        flag = "--force-reinstall " if report.reinstall else ""
        _fail(report.problems, f"pip install {flag}{_quote(report.specs)}")


def installed_version(distribution: str) -> str | None:
    """Return the version in a distribution's metadata, or None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_importable(module: str) -> bool:
    """Whether Python finds the top-level module; nothing is imported.

    A folder without ``__init__.py``, left behind by an uninstall, does not count.
    """
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def parse_version(version: str) -> Version:
    """Return the release number: (0, 11, 0) of "0.11.0rc3", (2, 4, 1) of "2.4.1+cu121"."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else (0,)


def _installed(family: Family) -> dict[str, str]:
    """Distributions of a family that are installed, with their versions."""
    names = [requirement.distribution for requirement in FAMILIES[family].values()]
    if family == "openmmlab":
        names.append(OFFICIAL_MMCV_LITE.distribution)
    found = {name: installed_version(name) for name in names}
    return {name: version for name, version in found.items() if version is not None}


def _check(report: _Report, module: str, requirement: Requirement) -> None:
    """Report a module that is missing, recorded but gone, or out of range.

    A module without metadata (a source tree on PYTHONPATH) is taken as it is.
    """
    version = installed_version(requirement.distribution)
    if not is_importable(module):
        if version is None:
            report.add(f"{module} is missing.", requirement.spec)
        else:
            # Uninstalling one family deletes files that the other one has recorded.
            report.reinstall = True
            report.add(
                f"{module} is broken: {requirement.distribution} {version} is recorded as "
                f"installed, but `import {module}` finds nothing.",
                requirement.spec,
            )
    elif version is not None and not requirement.accepts(version):
        report.add(
            f"{module} must be {requirement.range_spec}, but {version} is installed.",
            requirement.spec,
        )


def _check_official_pairs(report: _Report) -> None:
    """Report versions of the official family that do not go with each other."""
    mmengine = installed_version("mmengine")
    if mmengine is not None and parse_version(mmengine) < (0, 11):
        torch, setuptools = installed_version("torch"), installed_version("setuptools")
        if torch is not None and parse_version(torch) >= (2, 6):
            report.add(
                f"mmengine {mmengine} cannot resume its own checkpoints on torch >= 2.6, "
                f"but torch {torch} is installed.",
                OFFICIAL["mmengine"].spec,
            )
        if setuptools is not None and parse_version(setuptools) >= (82,):
            report.add(
                f"mmengine {mmengine} needs pkg_resources, which setuptools 82 dropped, "
                f"but setuptools {setuptools} is installed.",
                "setuptools<82",
            )
    mmcv = installed_version("mmcv")
    wanting = [name for name in ("mmdet", "mmsegmentation") if installed_version(name)]
    if mmcv is not None and wanting and parse_version(mmcv) >= (2, 2):
        report.add(
            f"{' and '.join(wanting)} must have mmcv < 2.2, but mmcv {mmcv} is installed.",
            OFFICIAL["mmcv"].spec,
        )


def _fail_mixed(onedl: dict[str, str], official: dict[str, str]) -> None:
    def listed(found: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in found.items())

    wanted = [
        requirement.spec
        for module, requirement in ONEDL.items()
        if module in REQUIRED
        or requirement.distribution in onedl
        or OFFICIAL[module].distribution in official
    ]
    names = " ".join([*onedl, *official])
    _fail(
        [
            "both OpenMMLab families are installed and overwrite each other's files: "
            f"OneDL ({listed(onedl)}) and official ({listed(official)})."
        ],
        f"pip uninstall -y {names} && pip install {_quote(wanted)}",
    )


def _fail(problems: list[str], command: str) -> None:
    lines = "\n".join(f"  * {problem}" for problem in problems)
    raise RuntimeError(f"mmssprl cannot run in this environment:\n{lines}\nTo repair: {command}")


def _quote(specs: Iterable[str]) -> str:
    return " ".join(f'"{spec}"' for spec in specs)


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)
