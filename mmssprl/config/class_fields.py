"""The fields that a registered class or function takes, by its signature.

Annotations are not always true. Those that name numbers or truth values alone are looked at.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import torch
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


class Kind(NamedTuple):
    """What a field holds, in words, and as the classes that stand for it."""

    words: str
    classes: tuple[type, ...]


FLAG = Kind("True or False", (bool, int, float, NoneType))
_NUMBER = Kind("a number", (bool, int, float, NoneType))
_NUMBERS = Kind("a number or a list of them", (bool, int, float, NoneType, list, tuple))


@dataclass(frozen=True)
class Fields:
    """The fields of a class.

    Attributes:
        names: All whose names are known, those of parents included.
        is_open: Whether it may take others: arguments that it passes on to who knows where.
        kinds: What some of them hold.
    """

    names: frozenset[str]
    is_open: bool = False
    kinds: Mapping[str, Kind] = field(default_factory=dict)


def fields_of(kind: Any, registry: Registry, scope: str) -> Fields | None:
    """Return the fields of what a config's ``type`` stands for, None if it is not registered."""
    found = registered(kind, registry, scope)
    if found is None:
        return None
    fields = arguments_of(found)
    return replace(fields, names=fields.names | _OF_REGISTRY.get(registry, set()))


@cache
def arguments_of(call: Any) -> Fields:
    """Return the arguments of a class, with those of its parents, or of a function."""
    names: set[str] = set()
    kinds: dict[str, Kind] = {}
    is_open = False
    for each in _calls(call):
        try:
            parameters = inspect.signature(each).parameters.values()
        except (TypeError, ValueError):
            return Fields(frozenset(names), True, kinds)
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names |= {p.name for p in parameters if p.kind in by_name} - {"self", "cls"}
        kinds = {**_kinds_of(each), **kinds}
        if each is CheckpointHook.__init__:
            break  # it gives the rest to Runner.save_checkpoint, which takes nothing more
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
        is_open = True
    return Fields(frozenset(names), is_open, kinds)


def nearest(name: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that was probably meant, None if all are too different."""
    found = get_close_matches(str(name), sorted(names), 1, cutoff)
    return found[0] if found else None


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


def _kinds_of(function: Callable) -> dict[str, Kind]:
    """Return the arguments of a function that are annotated as numbers or truth values."""
    kinds: dict[str, Kind] = {}
    for name, written in inspect.get_annotations(function).items():
        alone = SimpleNamespace(__annotations__={name: written})
        with suppress(Exception):  # a name that is imported for the type checker alone
            hint = get_type_hints(alone, globalns=inspect.unwrap(function).__globals__)[name]
            members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            classes = {get_origin(member) or member for member in members} - {NoneType}
            is_ours = function.__module__.partition(".")[0] == "mmssprl"
            if classes == {bool}:
                kinds[name] = FLAG
            elif classes and classes <= {int, float, bool, torch.Tensor}:
                kinds[name] = _NUMBER if is_ours else _NUMBERS
            elif classes and classes <= {int, float, list, tuple, Sequence}:
                kinds[name] = _NUMBERS
    return kinds
