"""``Command``, and options that several commands share."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..console.options import (
    Options,
    add_options,
    argument,
    check_ranges,
    collect,
    option,
    optional,
    switch,
)
from ..console.wording import program

CONFIG_OF_WEIGHTS = "training config, if WEIGHTS have no NAME.json"
WEIGHTS = "backbone weights, a training checkpoint, 'random', or 'supervised' (torchvision's)"
IMAGES = "folder of images or of .tar files, or one .tar file"


class Command(NamedTuple):
    """A command of ``python -m mmssprl``.

    Attributes:
        text: Help: one line for the list of commands, a paragraph, and examples.
        options: Class of its options, or its subcommands by name.
        run: Takes the options; may return an exit code.
        keywords: Extra arguments of ``add_argument``, by option name.
    """

    text: str
    options: "type | Mapping[str, Command]"
    run: Callable[[Any], int | None] = id  # unused if there are subcommands
    keywords: Mapping[str, dict[str, Any]] = {}

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a parser, and ``run`` to its namespace."""
        if isinstance(self.options, Mapping):
            group = parser.add_subparsers(title="pictures", metavar="PICTURE", required=True)
            for name, command in self.options.items():
                add_command(group, name, command)
            return
        add_options(parser, self.options, **self.keywords)
        parser.set_defaults(run=self._run)

    def _run(self, arguments: argparse.Namespace) -> int:
        options: Any = collect(self.options, vars(arguments))  # type: ignore[arg-type]
        check_ranges(options)
        return self.run(options) or 0


def add_command(subparsers: "argparse._SubParsersAction[Any]", name: str, command: Command) -> None:
    """Add the parser of a command."""
    summary, description, examples = as_typed(command.text).split("\n\n", 2)
    command.add_to(
        subparsers.add_parser(name, help=summary, description=description, epilog=examples)
    )


def as_typed(text: str) -> str:
    """Let the examples of a help text call the program as the user did."""
    return text.replace("python -m mmssprl", program())


class OfWeights(Options):
    """Options that define the backbone and its features."""

    weights: str = argument(WEIGHTS)
    config: str | None = optional(CONFIG_OF_WEIGHTS)
    image_px: int | None = option(
        "side of the centre crop", chosen="the image views of the config, or 224"
    )


class Overwriting(Options):
    """Options of commands that write OUT."""

    overwrite: bool = switch("replace an existing OUT")
