"""The learning rates of a config, by mmengine's schedulers."""

import numpy as np
from mmengine.registry import PARAM_SCHEDULERS


def learning_rates(cfg, optimizer, *, epochs=1, steps_per_epoch):
    """Return the rate of each step and group, scheduled in the order of mmengine's loops."""
    given = {"optimizer": optimizer, "epoch_length": steps_per_epoch}
    schedulers = [PARAM_SCHEDULERS.build(part, default_args=given) for part in cfg.param_scheduler]
    rates = []
    for step in range(epochs * steps_per_epoch):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or (step + 1) % steps_per_epoch == 0:
                scheduler.step()
    return np.array(rates)
