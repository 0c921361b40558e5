"""One run: launcher, runner, LARC, log line, and the hooks that remain."""

# Importing them registers them.
from .. import saving  # noqa: F401
from . import cpu_distributed, hooks, initial_weights, log_processor  # noqa: F401
from .larc import LARC

__all__ = ["LARC"]
