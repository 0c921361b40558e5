"""Learning rates that do not end where the training ends."""

import logging
from collections.abc import Mapping

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.optim import CosineAnnealingLR

from ..registry import PARAM_SCHEDULERS, class_of


def warn_of_schedule(cfg: Config) -> None:
    """Warn of every cosine that is not over when the training is.

    A longer cosine ends at a high rate, and a shorter one rises again.
    """
    loop = cfg.get("train_cfg") or {}
    schedulers = cfg.get("param_scheduler") or []
    for i, scheduler in enumerate([schedulers] if isinstance(schedulers, Mapping) else schedulers):
        by_epoch = scheduler.get("by_epoch", True)
        unit = "epochs" if by_epoch else "iters"
        end, period = loop.get(f"max_{unit}"), scheduler.get("T_max")
        kind = class_of(scheduler.get("type"), PARAM_SCHEDULERS)
        is_cosine = kind is not None and issubclass(kind, CosineAnnealingLR)
        if not is_cosine or None in (end, period):
            continue
        # mmengine's own default of begin is 0.
        begin = scheduler.get("begin", 0)
        if begin + period != end:
            print_log(
                f"param_scheduler.{i} has its lowest rate after {begin + period} {unit} "
                f"(T_max={period}), but the training ends after train_cfg.max_{unit}={end}; set "
                f"T_max to {end - begin} as well unless that is meant.",
                logger="current",
                level=logging.WARNING,
            )
