"""``Command``, and options that several commands share."""

import argparse
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any, ClassVar

from ..config.shipped import check_config
from ..console.options import (
    Options,
    add_options,
    argument,
    check_values,
    option,
    optional,
    switch,
    typed_options,
)
from ..console.wording import program
from ..weights import sources

CONFIG_OF_WEIGHTS = "training config, if WEIGHTS have no NAME.json"
WEIGHTS = sources.DESCRIPTION
IMAGES = "folder of images or of .tar files, or one .tar file"


class Command(Options, ABC):
    """A command of ``python -m mmssprl``: its options, and ``run``.

    The docstring of a subclass is its help: one line for the list of commands, a paragraph, and
    examples. Its name is the command's, and ``Command``.

    Attributes:
        keywords: Extra arguments of ``add_argument``, by option name.
        subcommands: The commands below this one, in place of options.
    """

    keywords: ClassVar[Mapping[str, dict[str, Any]]] = {}
    subcommands: ClassVar[Sequence["type[Command]"]] = ()

    @abstractmethod
    def run(self) -> int | None:
        """Run the command; it may return an exit code."""


def add_command(subparsers: "argparse._SubParsersAction[Any]", command: type[Command]) -> None:
    """Add the parser of a command."""
    summary, description, examples = help_of(command)
    name = name_of(command)
    add_to(
        subparsers.add_parser(name, help=summary, description=description, epilog=examples), command
    )


def add_to(parser: argparse.ArgumentParser, command: type[Command]) -> None:
    """Add the options of a command to a parser, and ``run`` to its namespace."""
    if command.subcommands:
        group = parser.add_subparsers(title="pictures", metavar="PICTURE", required=True)
        for each in command.subcommands:
            add_command(group, each)
        return
    add_options(parser, command, **command.keywords)

    def run(arguments: argparse.Namespace) -> int:
        asked = typed_options(command, arguments)
        check_values(asked)
        return asked.run() or 0

    parser.set_defaults(run=run)


def name_of(command: type[Command]) -> str:
    """Return the name that a user types."""
    return command.__name__.removesuffix("Command").lower()


def help_of(command: type[Command]) -> tuple[str, str, str]:
    """Return the summary, the description and the examples of a command."""
    summary, _, rest = as_typed(cleandoc(command.__doc__ or "")).partition("\n\n")
    description, _, examples = rest.partition("\n\n")
    return summary, description, examples


def as_typed(text: str) -> str:
    """Let the examples of a help text call the program as the user did."""
    return text.replace("python -m mmssprl", program())


def draw_without_windows() -> None:
    """Let matplotlib draw to files only, whatever backend a shell or a notebook names.

    A notebook's backend may not be installed here, and windows need a display.
    """
    os.environ["MPLBACKEND"] = "agg"


class OfWeights(Command):
    """Options that define the backbone and its features."""

    weights: str = argument(WEIGHTS, sources.check_weights)
    config: str | None = optional(CONFIG_OF_WEIGHTS, check_config)
    image_px: int | None = option(
        "side of the centre crop",
        chosen="the image views of the training, a network's only size, or 224",
    )


class Overwriting(Command):
    """Options of commands that write OUT."""

    overwrite: bool = switch("replace an existing OUT")
