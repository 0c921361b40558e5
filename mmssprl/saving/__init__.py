"""Resume after any interruption. Files are written atomically."""

from . import loops, safe_files  # noqa: F401  (registers their classes)
from .checkpoint_hooks import PretrainCheckpointHook, SafeCheckpointHook
from .save_and_stop_hook import SaveAndStopHook

__all__ = ["PretrainCheckpointHook", "SafeCheckpointHook", "SaveAndStopHook"]
