"""Hooks of mmengine's runner; they call methods of model and data.

None holds state of the model. What a hook keeps between steps, such as losses that no log has read
yet, is gone with the process and is never needed to resume.
"""

from .clip_gradients_hook import ClipGradientsHook
from .log_hooks import BoundedHistoriesHook, MonitorHook, PretrainRuntimeInfoHook
from .pretrain_hook import PretrainHook

__all__ = [
    "BoundedHistoriesHook",
    "ClipGradientsHook",
    "MonitorHook",
    "PretrainHook",
    "PretrainRuntimeInfoHook",
]
