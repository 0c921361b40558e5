"""A resumed training uses the learning rate and the schedule of its config.

mmengine takes them from the checkpoint, so that a lower rate in the config would change nothing.
"""

import json
import warnings
from collections.abc import Sequence
from typing import Any

from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner

from ..console.live_line import at_work
from ..console.log_line import LogLine
from ..errors import UserValueError
from ..weights import read_checkpoint
from .checkpoint_hooks import as_plain
from .run_files import require_same_config

SCHEDULE = "schedule"
"""Key in a checkpoint's ``meta`` of what ``schedule_of`` returns."""
_OF_OPTIMIZER = ("optim_wrapper", "auto_scale_lr")
_OF_SCHEDULE = ("param_scheduler", "train_cfg")
_INITIAL = "initial_"
"""Start of the keys with the values before any scheduler, such as 'initial_lr'."""
_MOVING = ("last_step", "_global_step", "_last_value", "base_values")
"""State of a scheduler that its steps change, or that follows from the optimizer."""
_Groups = Sequence[dict[str, Any]]


def schedule_of(cfg: Config) -> str:
    """Return the parts of a config that give the rate of each step, as JSON."""
    parts = {key: cfg.get(key) for key in (*_OF_OPTIMIZER, *_OF_SCHEDULE)}
    return json.dumps(parts, default=str, sort_keys=True)


def require_same_run(cfg: Config) -> None:
    """Raise ValueError if the run to resume has another config file, or another optimizer."""
    require_same_config(cfg)
    if "://" in cfg.load_from:
        return
    written = read_checkpoint(cfg.load_from, mmap=True)["meta"].get(SCHEDULE)
    before = _optimizer_in(written or "{}")
    now = _optimizer_in(schedule_of(cfg))
    if before and now and before != now:
        raise UserValueError(
            f"cannot resume: {cfg.load_from} was written with the optimizer {before}, the config "
            f"has {now}. Keep optim_wrapper.optimizer.type={before!r}, or start a new run in "
            "another work dir, with load_from for these weights."
        )


def _changed_wrapper(before: str, now: str) -> list[str]:
    """Return the options of the optimizer's wrapper that differ, such as its precision."""
    old, new = (json.loads(text).get("optim_wrapper") or {} for text in (before, now))
    names = sorted({*old, *new} - {"optimizer", "paramwise_cfg", "constructor"})
    found = []
    for name in names:
        usual = "OptimWrapper" if name == "type" else None
        values = [each.get(name) or usual for each in (new, old)]
        if name == "type":
            values = [_class_name(str(value)) for value in values]
        if values[0] != values[1]:
            found.append(f"optim_wrapper.{name} {values[0]} (was {values[1]})")
    return found


def _optimizer_in(schedule: str) -> str:
    """Return the name of the optimizer's class without its module; '' if it is not said."""
    wrapper = json.loads(schedule).get("optim_wrapper") or {}
    return _class_name(str((wrapper.get("optimizer") or {}).get("type", "")))


def _class_name(kind: str) -> str:
    return kind.removesuffix("'>").rpartition(".")[2]  # a class was written as "<class 'a.B'>"


def use_values_of_config(runner: Runner, checkpoint: dict[str, Any]) -> None:
    """Replace optimizer options and schedule in a loaded checkpoint if the config has changed.

    The rate becomes the one that the config's schedule has after the steps of the checkpoint. A
    rate that follows the scores stays, and so do values that a hook has set. Checkpoints of
    0.3.0 and older do not say their config, and keep their values.
    """
    wrapper: Any = runner.optim_wrapper
    schedulers: Any = runner.param_schedulers or []
    written = checkpoint["meta"].get(SCHEDULE)
    if not isinstance(wrapper, OptimWrapper) or not isinstance(schedulers, list) or not written:
        return

    state = checkpoint["optimizer"]
    base = state.get("base_param_settings")
    before: _Groups = [*state["param_groups"], *([] if base is None else [base])]
    now: _Groups = wrapper.param_groups
    differing = _differing_parts(written, schedule_of(runner.cfg))
    changes = _changed_options(before, now) if differing & {*_OF_OPTIMIZER} else {}
    is_other = bool(differing & {*_OF_SCHEDULE}) and _is_other_schedule(
        checkpoint.get("param_schedulers") or [], schedulers
    )
    others = _changed_wrapper(written, schedule_of(runner.cfg))
    if len(before) != len(now) or not (changes or is_other or others):
        return

    scheduled = _scheduled(now)
    moves = is_other or bool(scheduled & changes.keys())
    if moves and any(getattr(each, "need_val_args", False) for each in schedulers):
        _warn(runner, "the rate follows the scores and is taken from the checkpoint")
        changes = {name: text for name, text in changes.items() if name not in scheduled}
        moves = is_other = False
    if moves:
        with at_work("replaying the schedule"):
            _replay(schedulers, checkpoint["meta"], len(runner.train_dataloader))
        if schedulers:
            checkpoint["param_schedulers"] = [each.state_dict() for each in schedulers]

    used = {*changes, *(scheduled if moves else ())}
    for old, new in zip(before, now, strict=True):
        old.update({k: v for k, v in new.items() if k.removeprefix(_INITIAL) in used})
    names = [*changes.values(), *(["param_scheduler"] if is_other else []), *others]
    if names:
        rule = "the config differs from the checkpoint and is used from now on"
        _warn(runner, f"{rule}: {', '.join(names)}")


def _warn(runner: Runner, line: str) -> None:
    runner.logger.warning(LogLine(line, f"warning: {line}"))


def _differing_parts(before: str, now: str) -> set[str]:
    old = json.loads(before)
    new = json.loads(now)
    return {key for key in {*old, *new} if old.get(key) != new.get(key)}


def _scheduled(groups: _Groups) -> set[str]:
    """Return the options that schedulers set."""
    found: set[str] = set()
    for group in groups:
        found.update(key.removeprefix(_INITIAL) for key in group if key.startswith(_INITIAL))
    return found | ({"betas"} if "momentum" in found else set())


def _changed_options(before: _Groups, now: _Groups) -> dict[str, str]:
    """Return the options that differ, each with the first pair of values."""
    found: dict[str, str] = {}
    scheduled = _scheduled(now)
    for old, new in zip(before, now, strict=False):
        for key in sorted((old.keys() & new.keys()) - scheduled - {"params"}):
            if old[key] != new[key]:
                name = key.removeprefix(_INITIAL)
                found.setdefault(name, f"{name} {new[key]} (was {old[key]})")
    return found


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
