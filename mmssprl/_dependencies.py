"""The dependency gate: which OpenMMLab packages are here, do they fit, what command repairs it.

Two families provide the same import names under different distribution names: the official one
(mmengine, mmcv, mmpretrain) and OneDL's (onedl-mmengine, onedl-mmcv, onedl-mmpretrain). Either
will do, never both. The package's metadata can name neither, so this check runs before anything
of them is imported. It reads metadata only.
"""

import importlib.metadata
import importlib.util
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
    "mmcv": "mmcv>=2.1,<2.3",
    "mmpretrain": "mmpretrain>=1.2,<2",
    "mmdet": "mmdet>=3.3,<4",
    "mmseg": "mmsegmentation>=1.2,<2",
}
# mmcv without its compiled operators; _mmcv_operators.py replaces those that count.
OFFICIAL_MMCV_LITE = "mmcv-lite>=2.1,<2.3"

_ADVICE = {
    OFFICIAL["mmcv"]: "mmcv>=2.1,<2.2",  # one that mmdet and mmseg take as well
    OFFICIAL_MMCV_LITE: "mmcv-lite>=2.1,<2.2",
}
FAMILIES = {"onedl": ONEDL, "openmmlab": OFFICIAL}
REQUIRED = ("mmengine", "mmcv", "mmpretrain")
OPTIONAL = ("mmdet", "mmseg")


def check_dependencies() -> None:
    """Raise RuntimeError, with the command that repairs it, if a package is missing or unfit.

    Never ImportError, which mmengine's registries swallow while they look for ``mmssprl.registry``.
    """
    onedl = _installed(ONEDL.values())
    official = _installed([*OFFICIAL.values(), OFFICIAL_MMCV_LITE])
    if onedl and official:
        _fail_mixed(onedl, official)
    if {"mmcv", "mmcv-lite"} <= official.keys():
        mmcv = _quote([what_to_install(OFFICIAL["mmcv"])])
        _fail(
            ["mmcv and mmcv-lite are both installed and overwrite each other's files."],
            f"pip uninstall -y mmcv mmcv-lite && pip install {mmcv}",
        )
    wanted = dict(OFFICIAL if official else ONEDL)
    if "mmcv-lite" in official:
        wanted["mmcv"] = OFFICIAL_MMCV_LITE
    optional = [module for module in OPTIONAL if installed_version(distribution(wanted[module]))]
    wanted = TORCH | {module: wanted[module] for module in (*REQUIRED, *optional)}
    found = [_find_problem(module, requirement) for module, requirement in wanted.items()]
    problems = [problem for problem in (*found, *_find_bad_pairs()) if problem]
    if problems:
        flag = "--force-reinstall " if any(" is broken: " in text for text, _ in problems) else ""
        specs = dict.fromkeys(spec for _, spec in problems)
        _fail([text for text, _ in problems], f"pip install {flag}{_quote(specs)}")


def installed_version(name: str) -> str | None:
    """Return the version in a distribution's metadata, or None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_importable(module: str) -> bool:
    """Whether Python finds the top-level module; nothing is imported."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # None: a folder that pip left behind


def distribution(requirement: str) -> str:
    """Return what pip calls the package of a requirement."""
    return requirement.partition(">=")[0]


def what_to_install(requirement: str) -> str:
    """Return what pip is told to install, which can be narrower than what fits."""
    return _ADVICE.get(requirement, requirement)


def fits(version: str, requirement: str) -> bool:
    """Whether a version is in the range; a pre-release counts as the release it leads to."""
    # Not at the top: without it the environment lacks more, and that must be told.
    from packaging.requirements import Requirement
    from packaging.version import Version

    return Requirement(requirement).specifier.contains(Version(version).base_version)


def _installed(requirements: Iterable[str]) -> dict[str, str]:
    """Distributions that are installed, with their versions."""
    found = {name: installed_version(name) for name in map(distribution, requirements)}
    return {name: version for name, version in found.items() if version is not None}


def _find_problem(module: str, requirement: str) -> tuple[str, str] | None:
    """Say that a module is missing, recorded but gone, or out of range, and what to install."""
    name = distribution(requirement)
    version = installed_version(name)
    if is_importable(module):
        if version is None or fits(version, requirement):  # None: a source tree on PYTHONPATH
            return None
        problem = f"{module} must be {requirement}, but {version} is installed."
    elif version is None:
        problem = f"{module} is missing."
    else:  # uninstalling one family deletes files that the other one has recorded
        problem = f"{module} is broken: {name} {version} is installed, but nothing to import."
    return problem, what_to_install(requirement)


def _find_bad_pairs() -> Iterable[tuple[str, str]]:
    """Say which versions do not go with each other, and what to install."""
    found = _installed(("mmcv", "mmdet", "mmsegmentation", "transformers"))

    def has(requirement: str) -> bool:
        name = distribution(requirement)
        return name in found and fits(found[name], requirement)

    if has("transformers>=5"):
        version = found["transformers"]
        problem = f"mmpretrain must have transformers < 5, but transformers {version} is installed."
        yield problem, "transformers<5"
    wanting = [name for name in ("mmdet", "mmsegmentation") if name in found]
    if wanting and has("mmcv>=2.2"):
        problem = f"{' and '.join(wanting)} must have mmcv < 2.2, not mmcv {found['mmcv']}."
        yield problem, what_to_install(OFFICIAL["mmcv"])


def _fail_mixed(onedl: dict[str, str], official: dict[str, str]) -> None:
    found = onedl | official
    names = {module: {distribution(each[module]) for each in FAMILIES.values()} for module in ONEDL}
    wanted = [module for module in ONEDL if module in REQUIRED or names[module] & found.keys()]
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    _fail(
        [f"both OpenMMLab families are installed and overwrite each other's files: {listed}."],
        f"pip uninstall -y {' '.join(found)} && pip install {_quote(ONEDL[m] for m in wanted)}",
    )


def _fail(problems: list[str], command: str) -> None:
    raise UserRuntimeError(
        f"mmssprl cannot run in this environment: {' '.join(problems)} To repair: {command}"
    )


def _quote(specs: Iterable[str]) -> str:
    return " ".join(f'"{spec}"' for spec in specs)
