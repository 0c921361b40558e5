"""Resume after any interruption. Files are written atomically."""

from . import loops, safe_files  # noqa: F401  (importing them registers them)
from .checkpoint_hooks import PretrainCheckpointHook, SafeCheckpointHook
from .save_and_stop_hook import SaveAndStopHook

__all__ = ["PretrainCheckpointHook", "SafeCheckpointHook", "SaveAndStopHook"]
