"""Which machine, which versions and which commit the numbers are from."""

import os
import platform
from datetime import UTC, datetime

import cv2
import numba
import numpy
import PIL
import torch
import torchvision
from PIL import features

from mmssprl.system.environment import cpu_info, processor, source_commit, usable_cores

_RESULTS = "tools/dev/speed/results"
"""Results of an earlier run are no change of what is measured."""


def machine() -> dict[str, str]:
    """Describe what the numbers were measured on; no names of hosts, users or folders."""
    info = cpu_info()
    vectors = [flag for flag in info.get("flags", "").split() if flag.startswith(("avx", "fma"))]
    pillow = "pillow-simd" if ".post" in PIL.__version__ else "pillow"
    others = (torchvision, cv2, numpy, numba)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": source_commit(excluded=_RESULTS),
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
