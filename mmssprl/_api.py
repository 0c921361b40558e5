"""The functions of ``import mmssprl``: their modules, and the check of their arguments."""

import importlib
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache, wraps
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

PLACES = {
    "PretrainOptions": ("pretraining.options", "PretrainOptions"),
    "embed": ("search", "embed"),
    "export": ("weights", "export_weights"),
    "finetune": ("finetuning.start", "finetune"),
    "image_transform": ("features", "image_transform"),
    "load_backbone": ("features", "load_backbone"),
    "neighbors": ("search", "neighbors"),
    "predict": ("finetuning.predict", "predict"),
    "pretrain": ("pretraining.start", "pretrain"),
    "probe": ("probing", "probe"),
    "read_embeddings": ("search", "read_embeddings"),
    "report": ("reporting", "write_report"),
    "select": ("search", "select"),
}
"""Module and name of each public object."""


@cache
def find(name: str) -> Any:
    """Import a public object; functions check the arguments of a call."""
    module, attribute = PLACES[name]
    found = getattr(importlib.import_module(f".{module}", __package__), attribute)
    return found if isinstance(found, type) else _checked(found, name)


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function so that wrong arguments raise TypeError before it runs."""
    parameters = inspect.signature(function).parameters
    hints = get_type_hints(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for word in kwargs.keys() - parameters.keys():
            near = get_close_matches(word, parameters, 1)
            meant = f"; did you mean `{near[0]}`?" if near else f"; see help(mmssprl.{name})."
            raise TypeError(f"{name}() has no argument `{word}`{meant}")
        given = inspect.signature(function).bind(*args, **kwargs)
        for word, value in [*given.arguments.items()]:
            given.arguments[word] = plain = _plain(value)
            if not _fits(plain, hint := hints.get(word, Any)):
                kinds = " or ".join(_names(hint))
                got = f"{value!r}" if isinstance(value, str | int | float) else _a(type(value))
                if "FeatureBackbone" in kinds and hasattr(value, "state_dict"):
                    got += "; wrap it in mmssprl.features.FeatureBackbone"
                raise TypeError(f"{word} must be {kinds}, but got {got}.")
        return function(*given.args, **given.kwargs)

    return call


def _plain(value: Any) -> Any:
    """Return a numpy scalar as Python's int, float or bool."""
    is_numpys = type(value).__module__ == "numpy"  # not an array in a file
    return value.item() if is_numpys and getattr(value, "ndim", None) == 0 else value


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        # 0 == False, but 0 is not a bool.
        return any(isinstance(value, type(each)) and value == each for each in get_args(hint))
    if hint is Any:
        return True
    kind = type(None) if hint is None else origin or hint
    if isinstance(value, bool):  # a bool is an int in Python
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _names(hint: Any) -> list[str]:
    if get_origin(hint) in (Union, UnionType):
        return [name for each in get_args(hint) for name in _names(each)]
    if get_origin(hint) is Literal:
        return [repr(each) for each in get_args(hint)]
    return ["None"] if hint is type(None) else [_a(get_origin(hint) or hint)]


def _a(kind: type) -> str:
    return f"a{'n' if kind.__name__[0].lower() in 'aeiou' else ''} {kind.__name__}"
