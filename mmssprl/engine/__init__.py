"""Optimizer and hooks."""

from .hooks import InitialWeightsHook, PretrainCheckpointHook, PretrainHook
from .larc import LARC

__all__ = ["InitialWeightsHook", "LARC", "PretrainCheckpointHook", "PretrainHook"]
