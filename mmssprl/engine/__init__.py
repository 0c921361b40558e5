"""One run: launcher, runner, LARC, log line, and the hooks that remain."""

# Importing them registers them.
from .. import saving  # noqa: F401
from . import continuation, hooks, initial_weights, log_processor, runner  # noqa: F401
from .larc import LARC

__all__ = ["LARC"]
