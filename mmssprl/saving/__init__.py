"""A training resumes from anywhere, and a file is there whole or not at all."""

from . import loops, safe_files  # noqa: F401  (importing them registers them)
from .checkpoint_hooks import PretrainCheckpointHook, SafeCheckpointHook
from .save_and_stop_hook import SaveAndStopHook

__all__ = ["PretrainCheckpointHook", "SafeCheckpointHook", "SaveAndStopHook"]
