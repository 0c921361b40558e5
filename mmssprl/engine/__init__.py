"""Optimizer, hooks and log lines, and checkpoints that are written whole and run no code."""

# Importing them registers them.
from . import (  # noqa: F401
    checkpoint_loader,
    cpu_distributed,
    file_backend,
    file_handlers,
    hooks,
    log_processor,
    loops,
)
from .larc import LARC

__all__ = ["LARC"]
