"""Optimizer and hooks."""

from .hooks import PretrainCheckpointHook, PretrainHook
from .larc import LARC

__all__ = ["LARC", "PretrainCheckpointHook", "PretrainHook"]
