"""tools/train.py and tools/test.py: the parser, the exit codes and the launcher's variables."""

import argparse
import os
import sys
import time
import traceback
from typing import NoReturn

from .._dependencies import check_dependencies
from ..console.arguments import Parser
from ..console.messages import message_for_user
from ..console.options import check_values, typed_options
from ..console.quiet import VERBOSE, quiet_console
from ..console.wording import program
from ..errors import UserValueError
from ..system.openmp import yield_idle_threads
from ..system.processes import is_reported, report
from ..system.slurm import comes_back, requeue
from ..system.stopping import (
    Interrupted,
    Signal,
    end_with_experiment,
    end_with_parent,
    is_first_process,
    signals,
)
from . import COMMANDS, training
from ._command import add_to, draw_without_windows, help_of

_FIRST_S = 5.0
"""Delay before other ranks print an error, so that the first rank prints a shared one."""


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of tools/NAME.py, with the tool's name in the examples."""
    summary, description, examples = help_of(COMMANDS[name])
    examples = examples.replace(f"{program()} {name}", f"python tools/{name}.py")
    epilog = f"{examples}\n  bash tools/dist_{name}.sh ... 8\n"
    parser = Parser(description=f"{summary}\n\n{description}", epilog=epilog)
    add_to(parser, COMMANDS[name])
    add = parser.add_argument
    launchers = ["none", "pytorch", "slurm", "mpi"]
    launcher = "what started the processes; none: a single process"
    add("--verbose", action="store_true", help=VERBOSE)
    add("--launcher", choices=launchers, default="none", help=launcher)
    add("--local_rank", "--local-rank", type=int, default=0, help="set by launcher")
    return parser


def run_tool(name: str) -> None:
    """Train or test with the options of the command line, as tools/NAME.py.

    A user's mistake, or a signal before the first step, ends the process with one line; with
    ``--verbose`` the traceback comes first. A bug keeps its traceback. With several processes, the
    launcher reports the error.
    """
    yield_idle_threads()
    draw_without_windows()
    end_with_experiment()
    if "LOCAL_RANK" in os.environ:  # one of several processes of a launcher
        end_with_parent(os.getppid(), saves=True)

    is_verbose = "--verbose" in sys.argv
    try:
        with signals.watched(), quiet_console(verbose=is_verbose):
            parser = parser_of(name)
            if is_reported() or not is_first_process():
                parser.error = _refuse  # type: ignore[method-assign]  # printed once by others
            args = parser.parse_args()
            os.environ.setdefault("LOCAL_RANK", str(args.local_rank))  # of launchers that pass it
            check_dependencies()
            asked = typed_options(COMMANDS[name], args)
            check_values(asked)
            getattr(training, name)(asked, launcher=args.launcher)

    except Interrupted as error:
        if not is_reported() and is_first_process():
            print(f"{name}.py: {error}", file=sys.stderr)
        # Preempted. After such an early SIGUSR1 the time limit is too short for a first step.
        is_preempted = comes_back() and error.args[0] == Signal.SIGTERM
        if is_preempted and (done := requeue(is_first_process())):
            print(done, file=sys.stderr)
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
        sys.exit(f"{name}.py: error: {message}")


def _refuse(message: str) -> NoReturn:
    raise UserValueError(f"{message} (see --help).")
