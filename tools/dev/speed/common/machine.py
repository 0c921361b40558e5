"""Which machine, which versions and which commit the numbers are from."""

import os
from datetime import UTC, datetime

import torch

from mmssprl.system.environment import describe_environment, source_commit

_RESULTS = "tools/dev/speed/results"
"""Results of an earlier run are no change of what is measured."""


def machine() -> dict[str, str]:
    """Describe what the numbers were measured on; no names of hosts, users or folders."""
    here = describe_environment("cpu")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": source_commit(excluded=_RESULTS),
        "cpu": f"{here['processor']}, {torch.backends.cpu.get_cpu_capability()}",
        "cores": str(here["cores"]),
        "load before": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?",
        "python": here["python"],
        "packages": ", ".join(f"{name} {version}" for name, version in here["packages"].items()),
    }
