"""The commands of ``python -m mmssprl``.

Each command is a module with ``add_arguments(parser)`` and ``run(args) -> int``. Its docstring is
its help: a line for the list of commands, a paragraph, and examples. Whatever takes time to import
is imported inside ``run``, so that ``--help`` answers at once.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from ..errors import message_for_user

COMMANDS = (
    *("demo", "scenes", "prepare", "profile", "pretrain", "finetune", "predict"),
    *("compare", "probe", "diagnose", "convert", "export", "benchmark", "visualize"),
)

_EXAMPLE = """\
example, from nothing to a score:
  python -m mmssprl scenes data/scenes
  python -m mmssprl probe random data/scenes/coco --config configs/ssprl/ssprl_resnet18_scenes.py
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m mmssprl",
        description="SS-PRL, self-supervised pyramid representation learning, for OpenMMLab.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error comes from, goes first"
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = importlib.import_module(f".{name}", __package__)
        command_parser = add_command(subparsers, name, str(command.__doc__))
        command_parser.set_defaults(run=command.run)
        command.add_arguments(command_parser)
    return parser


def add_command(
    subparsers: "argparse._SubParsersAction[Any]", name: str, text: str
) -> argparse.ArgumentParser:
    """Add a parser whose help is ``text``: a line, a paragraph and examples."""
    summary, description, examples = text.split("\n\n", 2)
    return subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; None takes the process's own.

    Returns:
        The exit code: the command's own, or 2 after a mistake of the user, which is told in one
        message on stderr. Everything else that goes wrong is a bug and keeps its traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser()
    args = parser.parse_args(arguments)
    try:
        return args.run(args)
    except Exception as error:
        message = None if args.traceback else message_for_user(error)
        if message is None:
            raise
        command = next(name for name in arguments if name in COMMANDS)
        print(f"mmssprl {command}: error: {message}", file=sys.stderr)
        return 2
