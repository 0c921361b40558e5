"""Optimizer, hooks and log lines, and checkpoints that are written whole and run no code."""

# Importing them registers them.
from . import checkpoint_loader, cpu_distributed, file_backend, hooks, log_processor  # noqa: F401
from .larc import LARC

__all__ = ["LARC"]
