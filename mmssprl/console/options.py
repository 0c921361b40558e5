"""Options as dataclasses: flag, type, range, help and docstring are derived from the fields.

Create fields with ``argument``, ``option``, ``required`` and ``switch``. The annotation sets the
type: a ``Literal`` has choices, a ``Sequence`` takes several values, a ``Mapping`` KEY=VALUE. The
default None means that the value is chosen later.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from inspect import cleandoc
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, Literal, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from ..errors import UserValueError
from .arguments import ValuesAction

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Check = Callable[[Any, str], object]
"""A function of a value and its option's name that raises ValueError or OSError."""
_METAVARS = {
    **dict.fromkeys(("methods", "protocols", "reference"), "NAME"),
    **dict.fromkeys(("gpus", "num", "num_workers", "pictures", "seeds", "table"), "N"),
    **dict.fromkeys(("work_dir", "run_dir"), "RUN"),
    "cfg_options": "KEY=VALUE",
    "embeddings": "EMBEDDINGS",
    "file": "WEIGHTS",
    "image_px": "PX",
    "out_dir": "OUT",
    "weights": "WEIGHTS",
}
"""Placeholder of a value in the help, if it is not the option's name."""


def option(
    text: str,
    *,
    default: object = None,
    chosen: object = "chosen",
    metavar: str | None = None,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    check: Check | None = None,
) -> Any:
    """Return the field of an option that may be omitted; ``text`` is its help without a full stop.

    The help shows ``default``, or ``chosen`` in place of None; "" shows none. ``metavar`` overrides
    ``_METAVARS``. A number must be >= ``least``, > ``above`` and <= ``most``. ``check`` finds what
    is wrong with a value before a command imports torch.
    """
    words = default if isinstance(default, tuple) else [chosen if default is None else default]
    shown = " ".join(map(str, words))
    text = f"{text} (default: {shown})" if shown else text
    limits = (least, above, most)
    about = {"text": text, "metavar": metavar, "limits": limits, "check": check}
    return field(default=default, metadata=about)


def optional(text: str, check: Check | None = None) -> Any:
    """Return the field of an option with None as default, which the help does not show."""
    return option(text, chosen="", check=check)


def argument(text: str, check: Check | None = None) -> Any:
    """Return the field of a positional argument."""
    return field(metadata={"text": text, "check": check})


def required(text: str, check: Check | None = None) -> Any:
    """Return the field of a required option."""
    return field(metadata={"text": text, "required": True, "check": check})


def switch(text: str) -> Any:
    """Return the field of a flag, False by default; ``text`` says what True does."""
    return field(default=False, metadata={"text": text})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of a command's options; each subclass becomes a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


def add_options(parser: argparse.ArgumentParser, options: type, **keywords: dict[str, Any]) -> None:
    """Add a class's options to a parser; ``keywords`` of ``add_argument`` are by option name."""
    hints = get_type_hints(options)
    for each in fields(options):
        name = each.name
        is_required = "required" in each.metadata
        is_placed = each.default is MISSING and not is_required
        metavar = each.metadata.get("metavar") or _METAVARS.get(name)
        if each.default is False:
            settings: dict[str, Any] = {"action": "store_true"}
        else:
            settings = _of_hint(hints[name], metavar or (name.upper() if is_placed else None))
        settings |= {"help": each.metadata["text"].replace("%", "%%"), **keywords.get(name, {})}
        if is_placed:
            parser.add_argument(name, **settings)
        else:
            settings |= {"required": True} if is_required else {"default": each.default}
            parser.add_argument("--" + name.replace("_", "-"), dest=name, **settings)


def _of_hint(hint: Any, metavar: str | None) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for a type; of a union, its first type counts."""
    origin = get_origin(hint)
    values = get_args(hint)
    if origin is Literal:
        is_int = isinstance(values[0], int)
        return {"choices": values} | ({"type": int, "metavar": metavar} if is_int else {})
    if origin is Sequence:
        return {"nargs": "+", **_of_hint(values[0], metavar)}
    if origin is Mapping:
        return {"nargs": "+", "action": ValuesAction, "metavar": metavar}
    if origin is not None:
        return _of_hint(values[0], metavar)
    return {"metavar": metavar} | ({"type": hint} if hint in (int, float) else {})


def typed_options(options: type[T], typed: object) -> T:
    """Build options from the attributes of a parsed command line, which may have others too."""
    return options(**{each.name: getattr(typed, each.name) for each in fields(options)})  # type: ignore[arg-type]


def given_options(options: Any) -> list[str]:
    """Return the names of the options that differ from their default, without ``resume``."""
    given = [x.name for x in fields(options) if getattr(options, x.name) is not x.default]
    return [name for name in given if name != "resume"]


def check_values(options: Any) -> None:
    """Raise ValueError for a number out of range, and the errors of the options' checks."""
    check_ranges(options)
    for each in fields(options):
        check = each.metadata.get("check")
        value = getattr(options, each.name)
        if check is None or value is None:
            continue
        if isinstance(value, str | Path):
            check(value, each.name)
            continue
        for item in value:
            check(item, each.name)


def check_ranges(options: Any) -> None:
    """Raise ValueError for a number out of range."""
    for each in fields(options):
        value = getattr(options, each.name)
        limits = each.metadata.get("limits")
        if limits is None or not isinstance(value, int | float):
            continue
        least, above, most = limits
        if not (least <= value <= most and above < value and math.isfinite(value)):
            remedy = "; leave it out for the default" if each.default is None else ""
            low = f"at least {least:g}" if math.isinf(above) else f"above {above:g}"
            bounds = low if math.isinf(most) else f"{low} and at most {most:.15g}"
            raise UserValueError(f"{each.name} must be {bounds}, but got {value}{remedy}.")


def documented(options: type) -> Callable[[F], F]:
    """Decorator that adds these options to the ``Args`` of a function's docstring."""
    texts = {each.name: each.metadata["text"] for each in fields(options)}
    lines = [f"{name}: {text[0].upper()}{text[1:]}." for name, text in texts.items()]
    wrapper = TextWrapper(100, " " * 4, " " * 8, break_on_hyphens=False)

    def document(function: F) -> F:
        if function.__doc__:  # `python -OO` drops it
            text = cleandoc(function.__doc__)  # as Python 3.13 compiles it
            before, args, after = text.partition("Args:\n")
            own, returns, rest = after.partition("\n\n")
            args_text = "\n".join([own, *map(wrapper.fill, lines)])
            function.__doc__ = before + args + args_text + returns + rest
        return function

    return document
