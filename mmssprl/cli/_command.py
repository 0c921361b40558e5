"""What a command is, and the options that several of them have alike."""

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

CONFIG_OF_WEIGHTS = "config of their training, where WEIGHTS have no NAME.json"
WEIGHTS = "backbone weights, a training checkpoint, 'random', or 'supervised' (torchvision's)"
IMAGES = "folder of images or of .tar files, or one .tar file"


class Command(NamedTuple):
    """A command of ``python -m mmssprl``.

    Attributes:
        text: Its help: a line for the list of commands, a paragraph, and examples.
        options: The class of its options, or its own commands by name.
        run: Takes the options, and returns the exit code. It imports what takes time.
        keywords: What argparse is told beside their types, by name of an option.
    """

    text: str
    options: "type | Mapping[str, Command]"
    run: Callable[[Any], int] = id  # of nothing, where its commands have their own
    keywords: Mapping[str, dict[str, Any]] = {}

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add options to a parser, whose namespace then has ``run``."""
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
        return self.run(options)


def add_command(subparsers: "argparse._SubParsersAction[Any]", name: str, command: Command) -> None:
    """Add the parser of a command."""
    summary, description, examples = as_typed(command.text).split("\n\n", 2)
    command.add_to(
        subparsers.add_parser(name, help=summary, description=description, epilog=examples)
    )


def as_typed(text: str) -> str:
    """Let the examples of a help call the program as it was called."""
    return text.replace("python -m mmssprl", program())


class OfWeights(Options):
    """The backbone, and what decides how images become its features."""

    weights: str = argument(WEIGHTS)
    config: str | None = optional(CONFIG_OF_WEIGHTS)
    image_px: int | None = option(
        "side of the centre crop", chosen="the image views of the config, or 224"
    )


class Overwriting(Options):
    """What writes OUT."""

    overwrite: bool = switch("replace an existing OUT")
