"""The arguments of the parts of a model, for keys that a user types."""

import inspect
from collections.abc import Mapping
from typing import Any

from mmengine.config import Config

from ..console.wording import meant
from ..errors import UserValueError
from ..registry import MODELS, class_of
from .keys import used_keys


def refuse_unknown_arguments(cfg: Config, key: str, *, name: str) -> None:
    """Raise ValueError for a dotted key below ``model`` that a part of the model does not take.

    ``name`` begins the message.
    """
    first, *parts = key.split(".")
    node: Any = cfg.get("model") if first == "model" else None
    for part in parts:
        names = arguments_of(node)
        if names is not None and part not in names:
            others = used_keys(cfg) if node is cfg.model else set()
            raise UserValueError(
                f"{name} must be an argument of {node['type']} or a dotted key of the config, but "
                f"there is no {part!r}{meant(part, sorted(names | others))}"
            )
        node = node.get(part) if isinstance(node, Mapping) else None


def arguments_of(part: Any) -> set[str] | None:
    """Return the arguments of the class that a config names; None if they are not known."""
    kind = class_of(part.get("type"), MODELS) if isinstance(part, Mapping) else None
    if kind is None:
        return None
    names = {"type", "_delete_", "_scope_"}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        names.update(each.name for each in parameters)
        # A class that takes any keyword passes it to the next one.
        if all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters):
            return names
    return None
