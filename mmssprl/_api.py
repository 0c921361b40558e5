"""The functions of ``import mmssprl``: their modules, and the check of their arguments."""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from pkgutil import resolve_name
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .console.wording import meant
from .system.openmp import yield_idle_threads

PLACES = {
    "PretrainOptions": "pretraining.options:PretrainOptions",
    "embed": "search:embed",
    "export": "weights:export_weights",
    "finetune": "finetuning.start:finetune",
    "image_transform": "features:image_transform",
    "load_backbone": "features:load_backbone",
    "neighbors": "search:neighbors",
    "predict": "finetuning.predict:predict",
    "pretrain": "pretraining.start:pretrain",
    "probe": "probing:probe",
    "read_embeddings": "search:read_embeddings",
    "report": "reporting:write_report",
    "select": "search:select",
}
"""Module and name of each public object."""
_TRAINING = ("finetune", "pretrain")


@cache
def find(name: str) -> Any:
    """Import a public object; functions check the arguments of a call."""
    if name in _TRAINING:
        yield_idle_threads()  # before the import, which loads torch
    found = resolve_name(f"{__package__}.{PLACES[name]}")
    return found if isinstance(found, type) else _checked(found, name)


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function so that wrong arguments raise TypeError before it runs."""
    signature = inspect.signature(function)
    hints = get_type_hints(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for word in kwargs.keys() - signature.parameters.keys():
            remedy = meant(word, signature.parameters, f"; see help(mmssprl.{name}).")
            raise TypeError(f"{name}() has no argument {word}{remedy}")

        given = signature.bind(*args, **kwargs)
        for word, value in [*given.arguments.items()]:
            if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
                given.arguments[word] = value = value.item()  # a numpy scalar
            hint = hints.get(word, object)
            if not _fits(value, hint):
                got = repr(value) if isinstance(value, str | int | float) else type(value).__name__
                kinds = inspect.formatannotation(hint)
                if "FeatureBackbone" in kinds and hasattr(value, "state_dict"):
                    got += "; wrap it in mmssprl.features.FeatureBackbone"
                elif word == "backbone":
                    got += "; name a function of a file that returns it: 'my_net:function'"
                raise TypeError(f"{word} must be {kinds}, but got {got}.")
        return function(*given.args, **given.kwargs)

    return call


def _fits(value: Any, hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if kind is Literal:
        # 0 == False, but 0 is not a bool.
        return any(isinstance(value, type(each)) and value == each for each in get_args(hint))
    if isinstance(value, bool):  # a bool is an int in Python
        return kind in (bool, object, Any)
    return kind is Any or isinstance(value, (int, float) if kind is float else kind)
