"""Optimizer, hooks and log lines, and checkpoints that are written whole and run no code."""

# Importing them registers them.
from .. import saving  # noqa: F401
from . import cpu_distributed, hooks, log_processor  # noqa: F401
from .larc import LARC

__all__ = ["LARC"]
