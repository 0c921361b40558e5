"""What a command is, and how its options read KEY=VALUE."""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command of ``python -m mmssprl``.

    Attributes:
        text: Its help: a line for the list of commands, a paragraph, and examples.
        add_options: Adds its options to a parser.
        run: Takes the options, and returns the exit code. It imports what takes time.
    """

    text: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_command(
    subparsers: "argparse._SubParsersAction[Any]", name: str, text: str
) -> argparse.ArgumentParser:
    """Add a parser whose help is ``text``, as of a ``Command``."""
    summary, description, examples = text.split("\n\n", 2)
    return subparsers.add_parser(name, help=summary, description=description, epilog=examples)


class ValuesAction(argparse.Action):
    """Reads KEY=VALUE as mmengine's tools do, imported where the option is given.

    So ``--help`` answers at once. Given again, it adds to the values.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        from mmengine.config import DictAction

        for word in values:
            if "=" not in word:
                raise argparse.ArgumentError(self, f"it takes KEY=VALUE, but got {word!r}")
        action = DictAction(self.option_strings, self.dest, nargs=self.nargs)
        action(parser, namespace, values, option_string)
