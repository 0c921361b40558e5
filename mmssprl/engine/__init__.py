"""Optimizer, hooks and log lines, and checkpoints that run no code."""

# Importing them registers them.
from . import checkpoint_loader, cpu_distributed, hooks, log_processor, loops  # noqa: F401
from .larc import LARC

__all__ = ["LARC"]
