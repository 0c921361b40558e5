"""Numbers of a config that no run can use: NaN, infinity, counts of nothing or of far too much."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from mmengine.config import Config

from ..system.environment import MOST_PROCESSES
from .overrides import used_keys
from .reading import refuse

_COUNTS = {
    r"train_cfg\.(max_epochs|max_iters|val_interval)": 1,
    r"\w+_dataloader\.(batch_size|prefetch_factor|num_batch_per_epoch)": 1,
    r"\w+_dataloader\.num_workers": 0,
    r"optim_wrapper\.accumulative_counts": 1,
    r"default_hooks\.logger\.interval": 1,
    r"log_processor\.window_size": 1,
    r"auto_scale_lr\.base_batch_size": 1,
    r"num_threads": 1,
    r"env_cfg\.mp_cfg\.opencv_num_threads": 0,
}
"""Integers by dotted key, with the least that each may be."""
_FEW = r"\w+_dataloader\.(num_workers|prefetch_factor)|(env_cfg\.mp_cfg\.opencv_)?num_threads"
"""Those that may be ``MOST_PROCESSES`` at most: each is started, or asked for, one by one."""
_COUNTS_OR_NEVER = r"default_hooks\.checkpoint\.(interval|max_keep_ckpts)"
"""The same, >= 1, where mmengine takes -1 for never and for all."""
_LENGTHS = r"param_scheduler(\.\d+)?\.(T_max|step_size|total_steps|end)|env_cfg\.dist_cfg\.timeout"
_BEGIN = r"param_scheduler(\.\d+)?\.begin"
"""Numbers > 0 and >= 0, with which their readers compute as they are."""
_MAY_BE_NONE = (
    *("T_max", "total_steps", "timeout"),
    *("batch_size", "prefetch_factor", "num_batch_per_epoch", "num_threads"),
)
"""For which their readers choose a value then."""
_MAY_BE_INFINITE = ("max_norm", "norm_type")
"""Of gradients: no limit, to log the norm alone, and the norm of the greatest one."""


def check_ranges(cfg: Config) -> None:
    """Check the numbers of a training that mmengine and torch use as they are.

    Ranges of a part's own are checked by its class when it is built.

    Raises:
        ValueError: NaN or infinity in what a run reads, or too small or too large a count.
    """
    nodes = (_nodes(cfg.get(name), name) for name in sorted(used_keys(cfg)))
    for key, value in chain.from_iterable(nodes):
        field = key.rpartition(".")[2]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        may_be = math.isinf(value) and field in _MAY_BE_INFINITE if is_number else False
        if is_number and not (math.isfinite(value) or may_be):
            refuse(cfg, key, f"it must be a finite number, but got {value}; correct it.")
        if value is None and field in _MAY_BE_NONE:
            continue
        _check_count(cfg, key, value)
        if re.fullmatch(_LENGTHS, key) and not (is_number and value > 0):
            refuse(cfg, key, f"it must be a number > 0, but got {value!r}; correct it.")
        if re.fullmatch(_BEGIN, key) and not (is_number and value >= 0):
            refuse(cfg, key, f"it must be a number >= 0, but got {value!r}; correct it.")


def _check_count(cfg: Config, key: str, value: Any) -> None:
    least = next((least for keys, least in _COUNTS.items() if re.fullmatch(keys, key)), None)
    or_never = re.fullmatch(_COUNTS_OR_NEVER, key) is not None
    if least is None and not or_never:
        return
    least = 1 if least is None else least
    # mmengine's loops take 3.0 for 3, with which mmdet computes; torch's loader does not.
    is_whole = isinstance(value, float) and value.is_integer() and key.startswith("train_cfg.")
    is_integer = (isinstance(value, int) and not isinstance(value, bool)) or is_whole
    most = MOST_PROCESSES if re.fullmatch(_FEW, key) else math.inf
    if is_integer and (least <= value <= most or (or_never and value == -1)):
        return
    no_limit = " or -1 for no limit" if key.endswith("max_keep_ckpts") else " or -1 for never"
    limit = f" and <= {most}" if most < math.inf else no_limit if or_never else ""
    rule = f"an integer >= {least}{limit}"
    refuse(cfg, key, f"it must be {rule}, but got {value!r}; correct it.")


def _nodes(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield the dotted key of everything in a part of a config, with its value."""
    yield key, node
    items = node.items() if isinstance(node, Mapping) else ()
    for name, child in enumerate(node) if isinstance(node, list | tuple) else items:
        yield from _nodes(child, f"{key}.{name}")
