"""Optimizer, hooks and log lines."""

from .hooks import (
    InitialWeightsHook,
    PretrainCheckpointHook,
    PretrainHook,
    PretrainRuntimeInfoHook,
)
from .larc import LARC
from .log_processor import PretrainLogProcessor

__all__ = [
    "InitialWeightsHook",
    "LARC",
    "PretrainCheckpointHook",
    "PretrainHook",
    "PretrainLogProcessor",
    "PretrainRuntimeInfoHook",
]
