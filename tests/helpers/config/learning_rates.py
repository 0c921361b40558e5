"""The learning rates of a config, by mmengine's schedulers."""

import numpy as np
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS


def learning_rates(cfg, model):
    """Return the rate of each step and group, in the order of mmengine's loops.

    An epoch has four steps, or all of a training by iterations.
    """
    length = cfg.train_cfg.get("max_iters", 4)
    optimizer = build_optim_wrapper(model, cfg.optim_wrapper).optimizer
    given = {"optimizer": optimizer, "epoch_length": length}
    schedulers = [PARAM_SCHEDULERS.build(part, default_args=given) for part in cfg.param_scheduler]
    rates = []
    for step in range(length * cfg.train_cfg.get("max_epochs", 1)):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or (step + 1) % length == 0:
                scheduler.step()
    return np.array(rates)
