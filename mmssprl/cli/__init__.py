"""The commands of ``python -m mmssprl`` and of the console script ``mmssprl``.

Each is a class. Slow imports are inside their functions, so that ``--help`` is fast.
"""

import argparse
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain

from .._dependencies import check_dependencies
from ..console.arguments import Parser
from ..console.messages import message_for_user
from ..console.quiet import VERBOSE, quiet_console
from ..console.wording import program
from ..system.openmp import yield_idle_threads
from ..system.stopping import signals
from ..version import __version__
from . import benchmark, compare, data, features, finetuning, look, search, training, use
from ._command import add_command, as_typed, draw_without_windows, help_of, name_of

GROUPS = {
    "pre-train": (training.PretrainCommand, training.TrainCommand, compare.DemoCommand),
    "look": (
        look.ReportCommand,
        look.VisualizeCommand,
        features.ProbeCommand,
        search.NeighborsCommand,
        search.SelectCommand,
    ),
    "use": (
        finetuning.FinetuneCommand,
        finetuning.PredictCommand,
        features.EmbedCommand,
        use.ExportCommand,
        use.ConvertCommand,
    ),
    "compare": (compare.CompareCommand, benchmark.BenchmarkCommand, training.TestCommand),
    "data": (data.ScenesCommand, data.DoctorCommand),
}
COMMANDS = {name_of(command): command for command in chain(*GROUPS.values())}

_TRAINING = ("pretrain", "finetune", "train")
"""Commands that save a checkpoint when a signal stops them."""

_EXAMPLE = """\
example, from nothing to a score:
  python -m mmssprl scenes data/scenes
  python -m mmssprl probe random data/scenes/coco --config configs/ssprl/ssprl_resnet18_scenes.py
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    prog = program()
    usage = f"{prog} [-h] [--version] [--verbose] [--import MODULE] COMMAND ..."
    parser = Parser(prog=prog, usage=usage, epilog=as_typed(_EXAMPLE))
    add = parser.add_argument
    module = "import the module of a custom backbone, named in NAME.json; before COMMAND"
    add("--version", action="version", version=f"mmssprl {__version__}")
    add("--verbose", action="store_true", help=f"{VERBOSE}; before COMMAND")
    add("--import", dest="modules", action="append", default=[], metavar="MODULE", help=module)
    # argparse cannot group commands: the description lists them.
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=prog, help=argparse.SUPPRESS
    )
    lines = ["SS-PRL, self-supervised pyramid representation learning, for OpenMMLab."]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        for command in commands:
            lines.append(f"  {name_of(command):<11}{help_of(command)[0]}")
            add_command(subparsers, command)
    parser.description = "\n".join(lines)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, by default the one on the command line, and return its exit code.

    A user's mistake prints one message to stderr and returns 2. A signal returns 128 + its number.
    Any other error is a bug and keeps its traceback.
    """
    yield_idle_threads()
    draw_without_windows()
    args = build_parser().parse_args(list(sys.argv[1:] if argv is None else argv))
    try:
        if args.command != "doctor":  # it reports what is missing
            check_dependencies()
        for module in args.modules:
            from ..system.trusted_modules import import_named

            import_named(module)
        watched = signals.watched() if args.command in _TRAINING else nullcontext()
        with watched, quiet_console(verbose=args.verbose):
            return args.run(args)
    except KeyboardInterrupt as error:
        print(f"mmssprl {args.command}: {str(error) or 'stopped.'}", file=sys.stderr)
        return getattr(error, "code", 130)
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        if args.verbose:
            traceback.print_exc()
        print(f"mmssprl {args.command}: error: {message}", file=sys.stderr)
        return 2
