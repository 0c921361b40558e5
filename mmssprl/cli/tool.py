"""What training and testing a config have in common, as commands and as tools of a checkout."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from .._dependencies import check_dependencies
from ..console.arguments import Parser
from ..console.messages import message_for_user
from ..console.quiet import VERBOSE, quiet_console
from ..errors import UserValueError
from ..system.processes import is_reported, report
from ..system.slurm import comes_back, requeue
from ..system.stopping import Interrupted, Signal, is_first_process, signals, stop_with_launcher
from ._command import Command

_NO_RUN_OPTIONS = {"verbose", "local_rank", "modules", "run", "command"}
_FIRST_S = 5.0
"""How long the others wait with an error: what all of them find, the first process tells."""


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Add what the tools of a checkout take beside the options of their command."""
    add = parser.add_argument
    launchers, launcher = ["none", "pytorch", "slurm", "mpi"], "what started the processes"
    add("--verbose", action="store_true", help=VERBOSE)
    add("--launcher", choices=launchers, default="none", help=f"{launcher}; none: a single process")
    add("--local_rank", "--local-rank", type=int, default=0, help="set by launcher")


def run_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a run by name."""
    return {name: value for name, value in vars(args).items() if name not in _NO_RUN_OPTIONS}


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    """Return the parser of a command's tool in a checkout, with the tool's name in the examples."""
    description, _, examples = command.text.partition("\n\nexamples:\n")
    examples = examples.replace(f"python -m mmssprl {name}", f"python tools/{name}.py")
    parser = Parser(
        description=description,
        epilog=f"examples:\n{examples}  bash tools/dist_{name}.sh ... 8\n",
    )
    command.add_to(parser)
    add_tool_options(parser)
    return parser


def run_command(name: str, make_parser: Callable[[], Any], run: Callable[..., object]) -> None:
    """Call ``run`` with the options of the command line, as the tool of this name.

    A signal before the first step ends the process with one line, as a mistake does. A mistake of
    the user ends the process with one line, after a traceback with ``--verbose``; a
    bug keeps its traceback. One of several processes leaves both to what has started it.
    """
    if "LOCAL_RANK" in os.environ:  # one of several processes of a launcher
        stop_with_launcher()
    is_verbose = "--verbose" in sys.argv
    try:
        with signals.watched(), quiet_console(verbose=is_verbose):
            parser = make_parser()
            if is_reported() or not is_first_process():
                parser.error = _refuse  # once, not from every process
            args = parser.parse_args()
            os.environ.setdefault("LOCAL_RANK", str(args.local_rank))  # of launchers that pass it
            check_dependencies()
            run(**run_options(args))
    except Interrupted as error:
        if not is_reported() and is_first_process():
            print(f"{name}: {error}", file=sys.stderr)
        if comes_back() and error.args[0] == Signal.SIGTERM:
            # Preempted. After a SIGUSR1 that early, the job would never come to its first step.
            told = requeue(is_first_process())
            if told is not None:
                print(told, file=sys.stderr)
        sys.exit(error.code)
    except Exception as error:
        if is_reported():
            report(error)
            sys.exit(1)
        if not is_first_process():
            time.sleep(_FIRST_S)
        message = message_for_user(error)
        if message is None:
            raise
        if is_verbose:
            traceback.print_exc()
        sys.exit(f"{name}: error: {message}")


def _refuse(message: str) -> NoReturn:
    raise UserValueError(f"{message} (see --help).")
