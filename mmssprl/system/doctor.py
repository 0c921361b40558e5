"""What this installation has and lacks: packages, devices, disk. Needs nothing but Python."""

import importlib.metadata
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .._dependencies import (
    FAMILIES,
    OFFICIAL_MMCV_LITE,
    check_dependencies,
    distribution,
    fits,
    installed_version,
)
from ..version import __version__

EXTRAS = {
    "timm": ("'mmssprl[timm]'", "pretrain --backbone timm/NAME"),
    "onnx": ("onnx onnxscript onnxruntime", "export --to onnx"),
}
"""Packages that single commands use: what to install, and for what."""

LITTLE_DISK_GB = 5


@dataclass(frozen=True)
class DoctorFinding:
    """One thing that was looked at."""

    what: str
    found: str
    missing: str = ""  # what to do, if something is missing
    is_needed: bool = False  # whether nothing works without it

    @property
    def state(self) -> str:
        """'ok', 'missing', or 'note' where everything works without it."""
        if not self.missing:
            return "ok"
        return "missing" if self.is_needed else "note"


def examine() -> list[DoctorFinding]:
    """Look at everything, and import torch last, in a process of its own: it may be broken."""
    python = platform.python_version()
    fits = (3, 11) <= sys.version_info[:2] <= (3, 12)
    where = f"{__version__} in {Path(__file__).parents[1]}"
    remedy = "" if fits else "make an environment of Python 3.11 or 3.12"
    return [
        DoctorFinding("mmssprl", where),
        DoctorFinding(
            "Python", f"{python}, {platform.platform(terse=True)}", remedy, is_needed=True
        ),
        *_families(),
        *_packages(),
        *_extras(),
        _devices(),
        _disk(),
    ]


def _families() -> list[DoctorFinding]:
    findings = []
    for name, family in FAMILIES.items():
        wanted = [distribution(requirement) for requirement in family.values()]
        if name == "openmmlab":
            wanted.append(distribution(OFFICIAL_MMCV_LITE))
        versions = {each: installed_version(each) for each in wanted}
        found = ", ".join(f"{each} {version}" for each, version in versions.items() if version)
        if found:
            findings.append(DoctorFinding(f"family {name}", found))
    problem = ""
    try:
        check_dependencies()
    except RuntimeError as error:
        found, _, problem = str(error).partition(" To repair: ")
        found = found.partition("environment: ")[2]
        findings.append(DoctorFinding("OpenMMLab", found, problem, is_needed=True))
    optional = [module for module in ("mmdet", "mmseg") if importlib.util.find_spec(module) is None]
    if optional and not problem:
        installed = findings[0].what.removeprefix("family ")
        remedy = (
            f'pip install "mmssprl[{installed}-transfer]" (only for detection and segmentation)'
        )
        findings.append(DoctorFinding(", ".join(optional), "not installed", remedy))
    return findings


_OPENCV = "opencv-python"
_OPENCV_BUILDS = (
    *(_OPENCV, "opencv-python-headless"),
    *("opencv-contrib-python", "opencv-contrib-python-headless"),
)
"""Each brings the same ``cv2``: any will do, such as one without windows in a container."""


def _packages() -> list[DoctorFinding]:
    """The package's own requirements, without torch's, which the gate has checked."""
    try:
        lines = importlib.metadata.requires("mmssprl") or []
    except importlib.metadata.PackageNotFoundError:
        remedy = "pip install --no-build-isolation -e . (in the checkout)"
        return [DoctorFinding("metadata of mmssprl", "not installed, only imported", remedy)]
    owners = [name for name in _OPENCV_BUILDS if installed_version(name)]
    wanted = {re.split(r"[^\w.-]", line)[0]: line for line in lines if "extra ==" not in line}
    if owners:
        wanted.pop(_OPENCV, None)
        wanted |= dict.fromkeys(owners, "")
    versions = {name: installed_version(name) for name in wanted}
    missing = [
        f"'{line}'" if version else name
        for (name, line), version in zip(wanted.items(), versions.values(), strict=True)
        if version is None or not fits(version, line or name)
    ]
    found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    remedy = f"pip install {' '.join(missing)}" if missing else ""
    return [DoctorFinding("packages", found, remedy, is_needed=True), *_owner_of_cv2(owners)]


def _owner_of_cv2(owners: list[str]) -> list[DoctorFinding]:
    """A note where several builds of OpenCV lie over each other; mmdetection's imaug asks so."""
    if len(owners) < 2:
        return []
    kept = owners[0]
    remedy = f"pip uninstall -y {' '.join(owners)} && pip install {kept}=={installed_version(kept)}"
    return [DoctorFinding("cv2", f"{' and '.join(owners)} overwrite each other's files", remedy)]


def _extras() -> list[DoctorFinding]:
    findings = []
    for name, (packages, use) in EXTRAS.items():
        version = installed_version(name)
        remedy = "" if version else f"pip install {packages} (only for {use})"
        findings.append(DoctorFinding(name, version or "not installed", remedy))
    return findings


_DEVICES = """
import torch
names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(f"torch {torch.__version__}, {torch.get_num_threads()} CPU threads, "
      + (", ".join(names) if names else "no GPU"))
"""


def _devices() -> DoctorFinding:
    done = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return DoctorFinding("devices", f"torch does not start ({said})", "pip install torch", True)
    return DoctorFinding("devices", done.stdout.strip())


def _disk() -> DoctorFinding:
    usage = shutil.disk_usage(".")
    free = usage.free / 1e9
    found = f"{free:.0f} GB free of {usage.total / 1e9:.0f} GB in {Path.cwd()}"
    remedy = "" if free >= LITTLE_DISK_GB else "free some space, or work in another folder"
    return DoctorFinding("disk", found, remedy)
