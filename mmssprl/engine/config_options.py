"""Options of ``train`` and ``test`` that change a config: its size, precision and values."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.optim import AmpOptimWrapper, OptimWrapper

from ..config.at_size import at_size
from ..config.keys import used_keys
from ..config.overrides import check_spelling, merge_options, unused_helpers
from ..config.reading import read_config_file
from ..config.schedule_checks import line_of_queues
from ..console.wording import wrapped
from ..errors import UserValueError
from ..registry import OPTIM_WRAPPERS, class_of
from ..system.stopping import is_first_process


def config_with_options(
    config: str | Path | Config,
    size: str | None,
    cfg_options: Mapping[str, Any] | None,
    *,
    amp: bool = False,
    compile: bool = False,
) -> Config:
    """Read a config, and apply the options that change its values."""
    cfg = config if isinstance(config, Config) else read_config_file(config)
    check_spelling(cfg)
    if not isinstance(config, Config) and is_first_process():
        for line in (*unused_helpers(cfg), line_of_queues(cfg, cfg_options or {})):
            if line:
                print(wrapped(f"warning: {line}"), file=sys.stderr)
    if size is not None:
        cfg = at_size(cfg, size)
    merge_options(cfg, cfg_options or {})
    for split in ("train", "val", "test"):
        loader = cfg.get(f"{split}_dataloader")
        # torch refuses to keep 0 workers, or to fetch with them.
        if isinstance(loader, dict) and loader.get("num_workers") == 0:
            loader.pop("persistent_workers", None)
            loader.pop("prefetch_factor", None)
    if amp:
        _use_amp(cfg)
    if compile:
        _use_compile(cfg)
    return cfg


def train_config_text(
    config: str | Path,
    *,
    size: str | None = None,
    amp: bool = False,
    compile: bool = False,
    cfg_options: Mapping[str, Any] | None = None,
) -> str:
    """Return the text of the config that ``prepare_train_config`` trains, without bases."""
    cfg = config_with_options(config, size, cfg_options, amp=amp, compile=compile)
    used = used_keys(cfg)
    return Config({key: value for key, value in cfg.items() if key in used}).pretty_text


def _use_amp(cfg: Config) -> None:
    wrapper = cfg.get("optim_wrapper")
    kind = wrapper.get("type", "OptimWrapper") if isinstance(wrapper, Mapping) else None
    if class_of(kind, OPTIM_WRAPPERS) not in (OptimWrapper, AmpOptimWrapper):
        raise UserValueError(
            "--amp needs optim_wrapper.type='OptimWrapper' or 'AmpOptimWrapper', but got "
            f"{kind!r}; set mixed precision in the config instead."
        )

    wrapper.type = "AmpOptimWrapper"
    # V100 and T4 have no bfloat16 in hardware.
    old_gpu = torch.cuda.is_available() and not torch.cuda.is_bf16_supported(False)
    if wrapper.setdefault("dtype", "float16" if old_gpu else "bfloat16") == "bfloat16":
        # A scaler waits for the device in each step, and bfloat16 needs none.
        wrapper.setdefault("loss_scale", {"enabled": False})


def _use_compile(cfg: Config) -> None:
    """Compile backbone and augmentation; a model that cannot be compiled refuses the field."""
    cfg.model.compile_backbone = True
    cfg.model.data_preprocessor = {**(cfg.model.get("data_preprocessor") or {}), "compile": True}
