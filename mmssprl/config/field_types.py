"""Whether a value of a config fits the annotation of the argument that it is passed to.

Annotations of other packages are not always true. Of theirs only those that name numbers or truth
values are looked at, and text and dicts are refused there; lists too where a truth value belongs.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a string",
    dict: "a dict",
    Mapping: "a dict",
    NoneType: "None",
}
FLAG = Annotated[bool | int | float | None, "True or False"]
"""What stands for a truth value where nothing says that it must be one."""
_NUMBER = Annotated[bool | int | float | None | Sequence, "a number"]


def hints_of(function: Callable) -> dict[str, Any]:
    """Return the annotations of a function's arguments, those of other packages made lenient."""
    hints: dict[str, Any] = {}
    for name, written in inspect.get_annotations(function).items():
        alone = SimpleNamespace(__annotations__={name: written})
        with suppress(Exception):  # a name that is imported for the type checker alone
            hints |= get_type_hints(alone, globalns=inspect.unwrap(function).__globals__)
    if function.__module__.partition(".")[0] == "mmssprl":
        return hints
    return {name: lenient for name, hint in hints.items() if (lenient := _lenient(hint))}


def misfit(value: Any, hint: Any) -> str | None:
    """Return in words what a value must be by ``hints_of``, None if it is."""
    return None if _fits(value, hint) else _describe(hint)


def _lenient(hint: Any) -> Any:
    kinds = set(_members(hint)) - {NoneType}
    if kinds == {bool}:
        return FLAG
    return _NUMBER if kinds and kinds <= {int, float, bool, torch.Tensor} else None


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fits(value, arguments[0])
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    kind = origin or hint
    if kind in (list, tuple, Sequence):
        return isinstance(value, list | tuple) and _items_fit(value, arguments)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (bool, str, NoneType):
        return isinstance(value, kind)
    if kind in (dict, Mapping):
        return isinstance(value, Mapping)
    # What a registry or a class builds from a dict, or a class of which nothing is known.
    return not isinstance(kind, type) or not isinstance(value, bool | int | float | list | tuple)


def _items_fit(values: Sequence[Any], hints: tuple[Any, ...]) -> bool:
    if not hints:
        return True
    if len(hints) == 1 or hints[-1] is Ellipsis:
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return arguments[1]
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_describe, arguments)))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    kind = origin or hint
    if kind is tuple and Ellipsis not in arguments:
        return f"a list of {len(arguments)}, each {_describe(arguments[0])}"
    if kind in (list, tuple, Sequence):
        return f"a list, each {_describe(arguments[0])}" if arguments else "a list"
    return _WORDS.get(kind, "a dict")
