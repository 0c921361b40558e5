"""Optimizer, hooks and log lines."""

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
