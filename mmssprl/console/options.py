"""Options that a function and its command share: each name, type, range and text is written once.

A class of options is a dataclass whose fields are made by ``option``. None stands for what is then
chosen, so that whether an option was given can be told.
"""

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, field, fields
from textwrap import fill
from typing import Any, TypeVar, get_args, get_type_hints

from ..errors import UserValueError

F = TypeVar("F", bound=Callable[..., Any])

_DOCSTRING_WIDTH = 100


def option(
    text: str,
    *,
    chosen: object = "chosen",
    default: object = None,
    flag: str | None = None,
    metavar: str | None = None,
    choices: Iterable[str] | None = None,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
) -> Any:
    """Return a field of a class of options.

    Args:
        text: What the option is, without a full stop.
        chosen: What None stands for, in words.
        default: False for a switch, MISSING for what has to be given.
        flag: On the command line; None makes it of the name.
        metavar: Stands for the value in a help text.
        choices: All values.
        least: Smallest number.
        above: What a number must exceed.
        most: Largest number.
    """
    told = f"{text} (default: {chosen})" if default is None else text
    keywords = {"metavar": metavar, "choices": None if choices is None else [*choices]}
    limits = (least, above, most)
    facts = {"text": told, "flag": flag, "keywords": keywords, "limits": limits}
    return field(default=default, metadata=facts)


def add_options(parser: argparse.ArgumentParser, options: type, **keywords: dict[str, Any]) -> None:
    """Add the options of a class to a parser; ``keywords`` are argparse's, by name of an option."""
    hints = get_type_hints(options)
    for each in fields(options):
        told: dict[str, Any] = {"dest": each.name, "help": each.metadata["text"].replace("%", "%%")}
        if each.default is False:
            told["action"] = "store_true"
        else:
            kind = next(iter(get_args(hints[each.name])), hints[each.name])
            told |= each.metadata["keywords"] | {"required": each.default is MISSING}
            told |= {"type": kind} if kind in (int, float) else {}
        flag = each.metadata["flag"] or "--" + each.name.replace("_", "-")
        parser.add_argument(flag, **(told | keywords.get(each.name, {})))


def given_options(options: Any) -> list[str]:
    """Return the names of the options for which a value was given."""
    return [
        each.name
        for each in fields(options)
        if each.default is None and getattr(options, each.name) is not None
    ]


def check_ranges(options: Any) -> None:
    """Refuse numbers out of range.

    Raises:
        ValueError: Names the option, its range and the value.
    """
    for each in fields(options):
        value = getattr(options, each.name)
        least, above, most = each.metadata["limits"]
        if isinstance(value, int | float) and not (
            least <= value <= most and value > above and math.isfinite(value)
        ):
            raise UserValueError(
                f"{each.name} must be {_range(least, above, most)}, but got {value}; leave it out "
                "to have it chosen."
            )


def documented(options: type) -> Callable[[F], F]:
    """Let the docstring of a function tell these options, after its own arguments."""

    def document(function: F) -> F:
        if function.__doc__:  # which `python -OO` drops
            before, args, after = function.__doc__.partition("    Args:\n")
            told = [
                fill(
                    f"{each.name}: {each.metadata['text'][0].upper()}{each.metadata['text'][1:]}.",
                    _DOCSTRING_WIDTH,
                    initial_indent=" " * 8,
                    subsequent_indent=" " * 12,
                    break_on_hyphens=False,
                )
                for each in fields(options)
            ]
            own, returns, rest = after.partition("\n\n")
            function.__doc__ = before + args + "\n".join([own, *told]) + returns + rest
        return function

    return document


def _range(least: float, above: float, most: float) -> str:
    if math.isfinite(above):
        return f"a number above {above:g}"
    if math.isfinite(most):
        return f"from {least:.15g} to {most:.15g}"
    return f"at least {least:g}"
