"""Optimizer, hooks and log lines, and checkpoints that run no code."""

from . import checkpoint_loader  # noqa: F401  # registers its loaders with mmengine
from .hooks import (
    ClipGradientsHook,
    InitialWeightsHook,
    PretrainCheckpointHook,
    PretrainHook,
    PretrainRuntimeInfoHook,
)
from .larc import LARC
from .log_processor import PretrainLogProcessor

__all__ = [
    "ClipGradientsHook",
    "InitialWeightsHook",
    "LARC",
    "PretrainCheckpointHook",
    "PretrainHook",
    "PretrainLogProcessor",
    "PretrainRuntimeInfoHook",
]
