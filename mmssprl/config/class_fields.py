"""The fields that a registered class or function takes, by its signature."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from mmengine.hooks import CheckpointHook
from mmengine.registry import Registry
from torch import nn

from ..registry import (
    HOOKS,
    LOOPS,
    OPTIM_WRAPPERS,
    PARAM_SCHEDULERS,
    WEIGHT_INITIALIZERS,
    registered,
)

_OF_REGISTRY = {
    HOOKS: {"priority"},
    LOOPS: {"by_epoch"},
    OPTIM_WRAPPERS: {"constructor", "paramwise_cfg"},
    PARAM_SCHEDULERS: {"convert_to_iter_based"},
    WEIGHT_INITIALIZERS: {"override"},
}
"""Fields that mmengine takes out of a config before it calls the class."""
SIMILAR = 0.85
"""From this ratio of difflib on a field counts as misspelt: 'intervall' and 'interval' have 0.94,
and no two fields that are used here have as much."""


class Fields(NamedTuple):
    """All names that are known, those of parents included; if it is open, there may be others."""

    names: frozenset[str]
    is_open: bool = False


def fields_of(kind: Any, registry: Registry, scope: str) -> Fields | None:
    """Return the fields of what a config's ``type`` stands for, None if it is not registered."""
    found = registered(kind, registry, scope)
    if found is None:
        return None
    names, is_open = _arguments_of(found)
    return Fields(names | _OF_REGISTRY.get(registry, set()), is_open)


def nearest(name: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that was probably meant, None if all are too different."""
    found = get_close_matches(str(name), sorted(names), 1, cutoff)
    return found[0] if found else None


@cache
def _arguments_of(call: Any) -> Fields:
    names: set[str] = set()
    is_open = False
    for each in _calls(call):
        try:
            parameters = inspect.signature(each).parameters.values()
        except (TypeError, ValueError):
            return Fields(frozenset(names), True)
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names |= {p.name for p in parameters if p.kind in by_name} - {"self", "cls"}
        if each is CheckpointHook.__init__:
            break  # it gives the rest to Runner.save_checkpoint, which takes nothing more
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
        is_open = True
    return Fields(frozenset(names), is_open)


def _calls(call: Any) -> Iterator[Callable]:
    """Yield what takes the arguments of a class: its own constructor, then those of parents."""
    if not inspect.isclass(call):
        yield call
        return
    for base in inspect.getmro(call):
        if base in (object, nn.Module):
            return  # they take nothing, whatever their signature says
        own = vars(base).get("__init__") or vars(base).get("__new__")
        if own is not None:
            yield own
