"""Options that a function and its command share: each name, type, range and text is written once.

A class of options is a dataclass with fields made by ``option`` and ``switch``. None stands for
what is then chosen, so that whether an option was given can be told.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from textwrap import TextWrapper
from typing import Any, TypeVar, get_args, get_type_hints

from ..errors import UserValueError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_DOCSTRING_WIDTH = 100


def option(
    text: str,
    *,
    chosen: object = "chosen",
    metavar: str | None = None,
    choices: Iterable[str] | None = None,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
) -> Any:
    """Return a field of a class of options.

    Args:
        text: What the option is, without a full stop.
        chosen: What None stands for, in words.
        metavar: Stands for the value in a help text.
        choices: All values.
        least: Smallest number.
        above: What a number must exceed.
        most: Largest number.
        below: What a number must not reach.
    """
    keywords = {"metavar": metavar, "choices": None if choices is None else [*choices]}
    facts = {"text": f"{text} (default: {chosen})", "keywords": keywords}
    return field(default=None, metadata={**facts, "limits": (least, above, most, below)})


def switch(text: str) -> Any:
    """Return a field that is False or True; ``text`` is what True does, without a full stop."""
    return field(default=False, metadata={"text": text})


def add_options(parser: argparse.ArgumentParser, options: type, **keywords: dict[str, Any]) -> None:
    """Add the options of a class to a parser; ``keywords`` are argparse's, by name of an option."""
    hints = get_type_hints(options)
    for each in fields(options):
        told: dict[str, Any] = {"dest": each.name, "help": each.metadata["text"].replace("%", "%%")}
        if each.default is False:
            told["action"] = "store_true"
        else:
            kind = next(iter(get_args(hints[each.name])), hints[each.name])
            told |= each.metadata["keywords"] | ({"type": kind} if kind in (int, float) else {})
        told |= keywords.get(each.name, {})
        parser.add_argument("--" + each.name.replace("_", "-"), **told)


def collect(options: type[T], arguments: Mapping[str, Any]) -> T:
    """Take the options out of the arguments of a function."""
    return options(**{each.name: arguments[each.name] for each in fields(options)})  # type: ignore[arg-type]


def given_options(options: Any) -> list[str]:
    """Return the names of what was given, ``resume`` left out."""
    return [
        each.name
        for each in fields(options)
        if getattr(options, each.name) is not each.default and each.name != "resume"
    ]


def check_ranges(options: Any) -> None:
    """Raise ValueError for a number out of range."""
    for each in fields(options):
        value = getattr(options, each.name)
        limits = each.metadata.get("limits")
        if limits is None or not isinstance(value, int | float):
            continue
        least, above, most, below = limits
        if not (least <= value <= most and above < value < below and math.isfinite(value)):
            raise UserValueError(
                f"{each.name} must be {_range(*limits)}, but got {value}; leave it out to have it "
                "chosen."
            )


def documented(options: type) -> Callable[[F], F]:
    """Let the docstring of a function tell these options, after its own arguments."""
    texts = {each.name: each.metadata["text"] for each in fields(options)}
    lines = [f"{name}: {text[0].upper()}{text[1:]}." for name, text in texts.items()]
    wrapper = TextWrapper(_DOCSTRING_WIDTH, " " * 8, " " * 12, break_on_hyphens=False)

    def document(function: F) -> F:
        if function.__doc__:  # which `python -OO` drops
            before, args, after = function.__doc__.partition("    Args:\n")
            own, returns, rest = after.partition("\n\n")
            told = "\n".join([own, *map(wrapper.fill, lines)])
            function.__doc__ = before + args + told + returns + rest
        return function

    return document


def _range(least: float, above: float, most: float, below: float) -> str:
    if math.isfinite(below):
        return f"between {above:g} and {below:g}"
    if math.isfinite(above) and math.isfinite(most):
        return f"above {above:g} and at most {most:g}"
    if math.isfinite(above):
        return f"a number above {above:g}"
    if math.isfinite(most):
        return f"from {least:.15g} to {most:.15g}"
    return f"at least {least:g}"
