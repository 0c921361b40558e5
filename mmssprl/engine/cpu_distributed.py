"""Several processes on the CPU."""

from typing import Any

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from mmengine.registry import MODEL_WRAPPERS
from torch import nn

from ..errors import UserValueError


def use_cpu_processes(cfg: Config) -> None:
    """Let a config run in several processes on the CPU, which not every launcher can start."""
    if cfg.launcher not in ("pytorch", "slurm"):
        raise UserValueError(
            "launcher must be 'pytorch' or 'slurm' for processes on the CPU, but got "
            f"{cfg.launcher!r} and no accelerator; use tools/dist_train.sh or tools/slurm_train.sh."
        )
    wrapper = cfg.get("model_wrapper_cfg") or {
        "type": "MMDistributedDataParallel",
        "broadcast_buffers": False,
        "find_unused_parameters": cfg.get("find_unused_parameters", False),
    }
    if wrapper.get("type", "MMDistributedDataParallel") == "MMDistributedDataParallel":
        cfg.model_wrapper_cfg = {**wrapper, "type": "CPUDistributedDataParallel"}


@MODEL_WRAPPERS.register_module()
class CPUDistributedDataParallel(MMDistributedDataParallel):
    """mmengine's wrapper for models on the CPU.

    mmengine hands every wrapper ``device_ids=[LOCAL_RANK]``, which torch refuses for CPU models,
    and torch's SyncBatchNorm has no CPU kernel: such layers become BatchNorm, as mmengine does in
    a single process. Each process then normalises with the statistics of its own share.
    """

    def __init__(self, module: nn.Module, device_ids: Any = None, **kwargs: Any) -> None:
        if any(isinstance(layer, nn.SyncBatchNorm) for layer in module.modules()):
            print_log(
                "SyncBatchNorm has no CPU kernel: its layers are BatchNorm in this run.",
                logger="current",
            )
        super().__init__(module=revert_sync_batchnorm(module), device_ids=None, **kwargs)
