"""A resumed training uses the learning rate and the schedule of its config.

mmengine takes them from the checkpoint, so that a lower rate in the config would change nothing.
"""

import warnings
from collections.abc import Sequence
from typing import Any

from mmengine.optim import OptimWrapper
from mmengine.runner import Runner

from ..console.log_line import LogLine
from .checkpoint_hooks import as_plain

_INITIAL = "initial_"
"""Start of the keys with the values before any scheduler, such as 'initial_lr'."""
_MOVING = ("last_step", "_global_step", "_last_value", "base_values")
"""State of a scheduler that its steps change, or that follows from the optimizer."""
_Groups = Sequence[dict[str, Any]]


def use_values_of_config(runner: Runner, checkpoint: dict[str, Any]) -> None:
    """Replace optimizer options and schedule in a loaded checkpoint if the config has others.

    The rate becomes the one that the config's schedule has after the steps of the checkpoint.
    """
    wrapper: Any = runner.optim_wrapper
    schedulers: Any = runner.param_schedulers or []
    if not isinstance(wrapper, OptimWrapper) or not isinstance(schedulers, list):
        return
    if any(getattr(each, "need_val_args", False) for each in schedulers):
        return  # its rate depends on the scores so far

    state = checkpoint["optimizer"]
    base = state.get("base_param_settings")
    before: _Groups = [*state["param_groups"], *([] if base is None else [base])]
    now: _Groups = wrapper.param_groups
    changes = _changed_options(before, now)
    if _is_other_schedule(checkpoint.get("param_schedulers") or [], schedulers):
        changes.append("param_scheduler")
    if not changes or len(before) != len(now):
        return

    _replay(schedulers, checkpoint["meta"], len(runner.train_dataloader))
    for old, new in zip(before, now, strict=True):
        old.update({key: value for key, value in new.items() if key != "params"})
    if schedulers:
        checkpoint["param_schedulers"] = [each.state_dict() for each in schedulers]
    line = f"the config differs from the checkpoint and is used from now on: {', '.join(changes)}"
    runner.logger.warning(LogLine(line, f"warning: {line}"))


def _changed_options(before: _Groups, now: _Groups) -> list[str]:
    """Return the options that differ, each with the first pair of values."""
    found: dict[str, str] = {}
    for old, new in zip(before, now, strict=False):
        scheduled = {key.removeprefix(_INITIAL) for key in new if key.startswith(_INITIAL)}
        if "momentum" in scheduled:
            scheduled.add("betas")
        for key in sorted((old.keys() & new.keys()) - scheduled - {"params"}):
            if old[key] != new[key]:
                name = key.removeprefix(_INITIAL)
                found.setdefault(name, f"{name} {new[key]} (was {old[key]})")
    return list(found.values())


def _is_other_schedule(before: Sequence[dict[str, Any]], schedulers: Sequence[Any]) -> bool:
    now = [_constants(as_plain(each.state_dict())) for each in schedulers]
    return [_constants(each) for each in before] != now


def _constants(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in _MOVING}


def _replay(schedulers: Sequence[Any], meta: dict[str, Any], epoch_steps: int) -> None:
    """Step new schedulers as ParamSchedulerHook has done up to the checkpoint."""
    left = meta["epoch"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they step before the optimizer does
        for step in range(1, meta["iter"] + 1):
            for each in schedulers:
                if not each.by_epoch:
                    each.step()
            if left and step % epoch_steps == 0:
                left -= 1
                for each in schedulers:
                    if each.by_epoch:
                        each.step()
