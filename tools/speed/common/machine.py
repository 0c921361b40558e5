"""Which machine, which versions and which commit the numbers are from."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import cv2
import numba
import numpy
import PIL
import torch
import torchvision
from PIL import features

from mmssprl.profiling.machine import cpu_info, processor, usable_cores

_RESULTS = "tools/speed/results"


def machine() -> dict[str, str]:
    """Describe what the numbers were measured on; no names of hosts, users or folders."""
    info = cpu_info()
    vectors = [flag for flag in info.get("flags", "").split() if flag.startswith(("avx", "fma"))]
    pillow = "pillow-simd" if ".post" in PIL.__version__ else "pillow"
    others = (torchvision, cv2, numpy, numba)
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "cpu": f"{processor()} (family {info.get('cpu family', '?')}, "
        f"model {info.get('model', '?')})",
        "cores": str(usable_cores()),
        "load before": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?",
        "vector instructions": " ".join(vectors) or "unknown",
        "python": platform.python_version(),
        "torch": f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})",
        "pillow": f"{pillow} {PIL.__version__}, libjpeg {features.version('jpg')}"
        + (" (turbo)" if features.check_feature("libjpeg_turbo") else ""),
        "others": ", ".join(f"{module.__name__} {module.__version__}" for module in others),
    }


def _commit() -> str:
    """Return the commit of this checkout, marked if its files differ from it."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short", "HEAD")
        # Results of an earlier run are no change of what is measured.
        changed = git("status", "--porcelain", "--", ":/", f":(exclude,top){_RESULTS}")
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git checkout)"
    return f"{commit} with uncommitted changes" if changed else commit
