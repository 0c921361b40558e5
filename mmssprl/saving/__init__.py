"""A training goes on from anywhere, and a file is there whole or not at all."""

# Importing them registers them.
from . import checkpoint_loader, file_backend, file_handlers, loops  # noqa: F401
from .pretrain_checkpoint_hook import PretrainCheckpointHook
from .safe_checkpoint_hook import SafeCheckpointHook
from .save_and_stop_hook import SaveAndStopHook

__all__ = ["PretrainCheckpointHook", "SafeCheckpointHook", "SaveAndStopHook"]
