"""What a command is, and the options that several of them read alike."""

import argparse
from ast import literal_eval
from collections.abc import Callable
from typing import Any, NamedTuple

from ..console.arguments import count
from ..console.wording import program

CONFIG_OF_WEIGHTS = "config of their training, where WEIGHTS have no NAME.json"


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
    summary, description, examples = as_typed(text).split("\n\n", 2)
    return subparsers.add_parser(name, help=summary, description=description, epilog=examples)


def as_typed(text: str) -> str:
    """Let the examples of a help call the program as it was called."""
    return text.replace("python -m mmssprl", program())


class ValuesAction(argparse.Action):
    """Reads KEY=VALUE as mmengine's tools do, imported where the option is given.

    So ``--help`` answers at once. Given again, it adds to the values. A value with braces is a
    literal of Python, such as a list of dicts.
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
        for key, _, text in (word.partition("=") for word in values if "{" in word):
            try:
                getattr(namespace, self.dest)[key] = literal_eval(text)
            except (SyntaxError, ValueError) as error:
                told = f"{key} must be a literal of Python, but got {text!r}"
                raise argparse.ArgumentError(self, told) from error


def add_feature_options(parser: argparse.ArgumentParser) -> None:
    """Add what decides how images become features."""
    px = "side of the centre crop (default: the image views of the config, or 224)"
    parser.add_argument("--config", help=CONFIG_OF_WEIGHTS)
    parser.add_argument("--image-px", type=int, metavar="PX", help=px)


def add_output(parser: argparse.ArgumentParser, told: str) -> None:
    """Add the file that a command writes, and --overwrite; ``told`` is its help."""
    parser.add_argument("--out", metavar="OUT", help=told)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing OUT")


def add_weights(parser: argparse.ArgumentParser, **keywords: Any) -> None:
    """Add the weights of a backbone; ``keywords`` are argparse's."""
    told = "backbone weights, a training checkpoint, 'random', or 'supervised' (torchvision's)"
    parser.add_argument("weights", metavar="WEIGHTS", help=told, **keywords)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the number of runs at a time."""
    told = "runs at a time, spread over the GPUs (default: one per GPU, else one per core)"
    parser.add_argument("--jobs", type=count, help=told)


def add_cfg_options(parser: argparse.ArgumentParser, told: str = "") -> None:
    """Add values that replace a config's; ``told`` is more of the help."""
    text = f"replace values of the config{told}"
    parser.add_argument(
        "--cfg-options", nargs="+", action=ValuesAction, metavar="KEY=VALUE", help=text
    )
