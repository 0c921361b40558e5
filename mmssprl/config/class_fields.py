"""The fields that a registered class or function takes, read from its signature."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from mmengine.hooks import CheckpointHook
from mmengine.registry import Registry
from torch import nn

from ..registry import HOOKS, LOOPS, PARAM_SCHEDULERS, WEIGHT_INITIALIZERS, registered
from .field_types import hints_of

_OF_REGISTRY = {
    HOOKS: {"priority"},
    LOOPS: {"by_epoch"},
    PARAM_SCHEDULERS: {"convert_to_iter_based"},
    WEIGHT_INITIALIZERS: {"override"},
}
"""Fields that mmengine takes out of a config before it calls the class."""
SIMILAR = 0.85
"""From this ratio of difflib on a field counts as misspelt: 'intervall' and 'interval' have 0.94,
and no two fields that are used here have as much."""


@dataclass(frozen=True)
class Fields:
    """The fields of a class.

    Attributes:
        names: All whose names are known.
        is_open: Whether it may take others: arguments that it passes on to who knows where.
        hints: Of some of them what they may hold, see ``field_types``.
    """

    names: frozenset[str]
    is_open: bool
    hints: Mapping[str, Any] = field(default_factory=dict)


def fields_of(kind: Any, registry: Registry, scope: str) -> Fields | None:
    """Return the fields of what a config's ``type`` stands for, None if it is not registered."""
    found = registered(kind, registry, scope)
    if found is None:
        return None
    read = _fields_of_class if inspect.isclass(found) else _fields_of_function
    fields = read(found)
    return replace(fields, names=fields.names | _OF_REGISTRY.get(registry, set()))


def nearest(name: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that was probably meant, None if all are too different."""
    found = get_close_matches(str(name), sorted(names), 1, cutoff)
    return found[0] if found else None


@cache
def _fields_of_class(kind: Any) -> Fields:
    names: set[str] = set()
    hints: dict[str, Any] = {}
    for base in inspect.getmro(kind):
        own = vars(base)
        if base in (object, nn.Module):
            break  # they take nothing, whatever their signature says
        if "__new__" in own and "__init__" not in own:
            return Fields(frozenset(names), is_open=True, hints=hints)
        if "__init__" not in own:
            continue
        try:
            parameters = list(inspect.signature(own["__init__"]).parameters.values())[1:]
        except (TypeError, ValueError):
            return Fields(frozenset(names), is_open=True, hints=hints)
        names |= _names(parameters)
        hints = {**hints_of(own["__init__"]), **hints}
        rest = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        if rest is None or base is CheckpointHook:
            break  # the hook gives the rest to Runner.save_checkpoint, which takes nothing more
        if not _goes_to_parent(own["__init__"], rest, base.__name__):
            return Fields(frozenset(names), is_open=True, hints=hints)
    return Fields(frozenset(names), is_open=False, hints=hints)


def _fields_of_function(function: Any) -> Fields:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return Fields(frozenset(), is_open=True)
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return Fields(frozenset(_names(parameters)), is_open, hints_of(function))


def _names(parameters: Iterable[inspect.Parameter]) -> set[str]:
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _goes_to_parent(init: Callable, rest: str, owner: str) -> bool:
    """Return whether ``**rest`` is only handed on by ``super().__init__(**rest)``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    except (OSError, TypeError, SyntaxError):
        return False
    passed = sum(
        isinstance(keyword.value, ast.Name) and keyword.value.id == rest
        for call in _calls_of_parent(tree, owner)
        for keyword in call.keywords
        if keyword.arg is None
    )
    used = sum(isinstance(node, ast.Name) and node.id == rest for node in ast.walk(tree))
    return passed == used == 1


def _calls_of_parent(tree: ast.AST, owner: str) -> Iterator[ast.Call]:
    # super(Parent, self) goes past the parent, as mmdet's VFNetHead does.
    calls = {"super().__init__", f"super({owner}, self).__init__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in calls:
            yield node
