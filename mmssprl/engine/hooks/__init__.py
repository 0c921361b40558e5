"""Hooks of mmengine's runner; they call methods of model and data.

None holds state of the model. What a hook keeps between steps, such as losses that no log has read
yet, is gone with the process and is never needed to resume.
"""

from .bounded_histories_hook import BoundedHistoriesHook
from .clip_gradients_hook import ClipGradientsHook
from .monitor_hook import MonitorHook
from .pretrain_hook import PretrainHook
from .pretrain_runtime_info_hook import PretrainRuntimeInfoHook

__all__ = [
    "BoundedHistoriesHook",
    "ClipGradientsHook",
    "MonitorHook",
    "PretrainHook",
    "PretrainRuntimeInfoHook",
]
